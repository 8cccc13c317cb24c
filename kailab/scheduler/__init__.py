"""kailab's scheduler over a cluster, compatible with NVIDIA's KAI.

``loop.Scheduler`` runs one cycle after the other: ``mirror`` turns watch events into the engine's records with ``reading``, the engine
decides, ``binding`` writes the decisions, ``status`` reports them on pods and PodGroups, and ``observers`` hear of each cycle.
``composition`` adds the controllers that run beside the scheduler (grouping, queue status, reservations, claims); ``service`` runs them as
a process. ``settings`` reads the configuration file, ``usage`` keeps past usage, ``scheduling_state`` answers questions about the present,
``saved_state`` keeps its answers in a lab's file, and ``policy_timeouts`` ends policies that never return. ``baseline`` is a simple
kube-scheduler for comparison.
"""
