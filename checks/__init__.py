"""Checks for kailab's developers. Run `python -m checks --help`. The package is part of the source, not of the wheel.

``cli`` is the command line; ``report`` the common form of results. ``recorded`` compares kailab with recorded decisions
of KAI, ``fuzzing`` runs random input against ``invariants``, ``explaining`` verifies explanations by trying them, and
``hunting`` looks for clusters that another scheduler decides differently. ``case_input`` and ``simulated_cluster`` are
the cluster before and between cycles, which ``cluster_changes`` changes; ``recorded_files`` finds and reads recorded
files.
"""
