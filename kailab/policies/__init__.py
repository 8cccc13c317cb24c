"""Policies that come with kailab, each from a published source.

``catalogue`` maps their names to classes. ``orders``: jobs and victims. ``placement`` and ``fragmentation``: nodes.
``reservations``: nodes kept free. ``shares``: queues. ``dispatching``: clusters.
"""
