"""The engine's mutable state, made from records and updated by them.

``workingset.WorkingSet`` is the container. ``state`` has jobs, pod sets and tasks, ``jobindex`` sorted jobs by queue,
``queues`` the queue tree. ``nodes.NodeTable`` has all nodes as arrays in the rows of ``layout``; parts of it are
``shared_gpus`` and ``shared_gpu_arrays``, ``claims`` and ``device_supply`` (DRA devices), and ``numa`` (zones).
``domains`` has the trees of topologies.
"""
