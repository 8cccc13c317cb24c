"""The version of this distribution, for what is recorded and shown."""

__version__ = "0.1.0"
