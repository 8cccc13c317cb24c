"""Explanations of a cycle, computed from the rules that decide.

A cycle itself fills in ``pending`` (reasons of waiting jobs) and ``eviction_totals``; all else is computed on request.
``serving``: the serving order. ``node_filter`` applies the node rules one by one, ``node_answers`` words the answer of
each node with ``domain_answers`` for topology, and ``barriers`` finds the least set of rules that would have to go.
``eviction_blockers``: what keeps a job from evicting others. ``reclaim_options``: what queues could reclaim. ``unplaceable``:
jobs that fit on no cluster of these nodes.
"""
