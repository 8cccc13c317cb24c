"""Reads objects into records of the engine: one kind of object, or one part of a pod, per module.

``tasks`` and ``shapes`` read pods (with ``requests``, ``affinity``, ``numa``, ``references``), ``podgroups``, ``queues``, ``nodes`` and
``claims`` their kinds. ``accounts`` counts GPUs for tables. None of them writes to a cluster.
"""
