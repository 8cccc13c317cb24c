"""The search for victims, used by consolidation, reclaim and preempt.

``solver.Solver`` runs a search: ``victim_sets`` proposes sets of victims for a ``search_goal``, ``filters`` discards useless
ones, and each remaining one is simulated. ``reclaimable`` and ``minruntime`` are the rules about victims.
``signatures`` compares jobs, so that one no easier than a failed one is skipped; ``alike`` does so for more jobs where
a change is tried on a fork. ``bounds``, ``shortfall``, ``victims_first`` and ``repacking`` prove that a search or a set must fail, without changing a decision.
"""
