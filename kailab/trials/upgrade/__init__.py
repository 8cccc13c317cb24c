"""Upgrade trials: replace one scheduler by another while work runs, and roll back.

``run`` carries the trial out and measures how long nothing is scheduled (``cluster_state.SchedulingProbe``) and what is
lost. ``service_accounts`` tries a renewed account, and ``result`` holds and formats the findings.
"""
