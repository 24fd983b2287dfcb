"""Live views for notebooks. anywidget and ipywidgets are imported at the first call, not here."""

from mhalib.widgets.heads import heads
from mhalib.widgets.sliders import slide

__all__ = ["heads", "slide"]
