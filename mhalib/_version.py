"""The one place that says which version this is; packaging and `mhalib.__version__` read it here."""

__version__ = "0.1.0"
