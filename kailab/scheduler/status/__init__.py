"""Status written to the cluster.

``reporting`` writes why work is pending: conditions, events and timestamps. ``queue_status`` writes what queues and
PodGroups request and hold.
"""
