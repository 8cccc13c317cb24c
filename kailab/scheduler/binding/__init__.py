"""Writes decisions to the cluster.

``execution`` binds and evicts, with ``bind_backoff`` for pods whose binding failed. Before a bind it runs the ``preparation``\\ s:
``claim_allocation`` allocates ResourceClaims, ``reservation_pods`` reserves shared GPUs.
"""
