"""Recorded behaviour of a real KAI, and runs of kailab that are compared with it.

``cases``: scheduling cases, read by ``case_reading``, chosen by ``selection``, compared by ``expectations`` (their
initial state by ``loading_check``) and written by ``case_writing``. ``fairshare``: divisions among queues, with
``queue_rules`` and ``time_fairness``. ``grouping``: PodGroups of owners. ``scenarios``: manifests in steps, on a real
API server by ``live_clusters``. ``snapshot_comparison``: snapshots of a running KAI.
"""
