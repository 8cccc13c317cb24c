"""One module per family of workloads."""
