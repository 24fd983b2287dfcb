"""Live views for notebooks. anywidget and ipywidgets are imported at the first call, not here."""

from mhalib.course.widgets.heads import heads
from mhalib.course.widgets.sliders import slide

__all__ = ["heads", "slide"]
