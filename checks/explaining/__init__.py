"""Verification of explanations: random situations in labs, each answer tried.

``random_situation`` makes a ``situation.Situation`` from a seed, with ``random_clusters`` and ``misconfigurations``.
``judging`` judges every answer: the verdict by ``ground_truth``, the cause by removing it (``removal``,
``removal_steps``), its wording by ``naming``. ``workloads`` and ``workload_context`` read the lab. ``run`` judges many
seeds, ``shrinking`` cuts a failure down.
"""
