"""Advice about a cluster and about manifests.

- ``audit``: queues that lack, borrow or leave GPUs unused, and work that can never run.
- ``health``: whether a scheduler works well.
- ``practice``: rules of good practice for manifests (``kailab lint``).
- ``policykinds``: the meaning of policy kinds in documents about KAI.
- ``unserved_work``: pods and node pools that no scheduler serves, for ``audit`` and ``health``.
"""
