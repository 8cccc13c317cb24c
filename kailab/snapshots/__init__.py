"""A cluster at one moment, in a file: taken from any cluster, and opened as an embedded lab."""
