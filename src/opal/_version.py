"""The version of the distribution `opal-optimizer`."""

__version__ = "0.4.0.dev0"
