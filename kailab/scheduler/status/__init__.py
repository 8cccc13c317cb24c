"""What the cluster is told: why work waits, and what each PodGroup and queue requests and holds."""
