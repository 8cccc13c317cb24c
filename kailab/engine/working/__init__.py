"""What a cycle works on: nodes, queues and jobs as they stand, made from the records and kept up to date from cycle to cycle."""
