"""A trace over several clusters: a dispatcher above them, and below each a lab with its own scheduler and queues, in one virtual time."""
