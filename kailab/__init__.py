"""kailab: a test harness and validation lab for GPU-cluster scheduling."""

__version__ = "0.1.0"
