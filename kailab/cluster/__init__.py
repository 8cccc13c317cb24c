"""Where objects live. One small protocol (``protocol.Cluster``), several homes."""
