"""Verification of explanations: random situations in labs, each answer tried.

``random_situation`` makes a small ``situation.Situation`` from a seed, with ``random_clusters`` and
``misconfigurations``; ``platform_cluster`` makes the cluster of a platform team. ``judging`` judges every answer: the
verdict by ``ground_truth``, the cause by removing it (``removal``, ``removal_steps``), its wording by ``naming`` and
``sentence_numbers``, the steps by ``step_words`` and ``step_outcomes``, and the other screens by ``screens``.
``workloads``, ``pod_templates`` and ``workload_context`` read the lab. ``run`` judges many seeds, ``shrinking`` cuts a
failure down.
"""
