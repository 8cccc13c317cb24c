"""What takes causes away, by what is changed for it: the workload, its queues, nodes, other work, what it names."""
