"""Cycles on a changed input: what would a cycle decide if one rule, or other work, were gone?

``rules`` defines the changes (``Relaxation``) and the ``CycleInputDraft`` that they modify; ``relaxed_cycles.RelaxedCycles`` runs
cycles with them.
"""
