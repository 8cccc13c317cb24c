"""What is told of a cycle beside its decisions: why jobs got no place, in which order they were served, what evictions took."""
