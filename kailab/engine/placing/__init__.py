"""Placement: which nodes and devices the tasks of a job get.

``allocation.Allocator`` places a job, ``placement.Placer`` one task, ``topology.TopologyPlan`` chooses the domains.
``fit`` has the node filters, ``podaffinity`` the rules between pods, ``score`` the scores, ``node_capacity`` counts how
many pods fit. ``node_reservations`` keeps nodes free, and ``unbacked_pipelines`` withdraws promises for which no task
leaves.
"""
