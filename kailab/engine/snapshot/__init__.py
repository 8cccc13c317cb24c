"""What the engine is told: a cluster's records at one moment, as a value, with their units, what changed since, and JSON both ways."""
