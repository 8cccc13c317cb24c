"""Why something is as it is: one answer about a pod, a PodGroup, a workload or a queue, found by trying.

- ``asking``: the answer, from ``subject`` (whose pods), ``verdict``, ``causes`` (a finder for each reason why something waits),
  ``running`` and ``gone`` (what runs, what was evicted), ``steps`` (what would let it run, tried on forks) and ``details``.
- ``queues``: the arithmetic of a queue.
"""
