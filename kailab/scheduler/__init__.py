"""kailab's scheduler over a cluster, compatible with NVIDIA's KAI.

``loop.Scheduler`` runs one cycle after the other: ``mirror`` turns watch events into the engine's records with ``reading``, the engine
decides, ``binding`` writes the decisions, ``status`` reports them on pods and PodGroups, and ``observers`` hear of each cycle.
``composition`` adds the controllers that run beside the scheduler (grouping, queue status, reservations, claims); ``service`` runs them as
a process. ``settings`` reads the configuration file, ``usage`` keeps past usage, ``scheduling_state`` answers questions about the present,
``saved_state`` keeps its answers in a lab's file, and ``policy_timeouts`` ends policies that never return. ``baseline`` is a simple
kube-scheduler for comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.exports import on_demand

if TYPE_CHECKING:
    from kailab.scheduler.baseline import Baseline
    from kailab.scheduler.cycle_record import CycleHistory, CycleRecord, RefusedDecision
    from kailab.scheduler.loop import Scheduler
    from kailab.scheduler.mirror import Mirror
    from kailab.scheduler.settings.config_file import SchedulerSettings, load_settings, read_settings, settings_of
    from kailab.scheduler.status.queue_status import QueueStatus
    from kailab.scheduler.usage import UsageHistory, UsageParams

__all__ = [
    "Baseline",
    "CycleRecord",
    "RefusedDecision",
    "CycleHistory",
    "Mirror",
    "QueueStatus",
    "Scheduler",
    "SchedulerSettings",
    "UsageHistory",
    "UsageParams",
    "load_settings",
    "read_settings",
    "settings_of",
]


__getattr__ = on_demand(
    __name__,
    {
        "Baseline": "baseline",
        "CycleRecord": "cycle_record",
        "RefusedDecision": "cycle_record",
        "CycleHistory": "cycle_record",
        "Mirror": "mirror",
        "QueueStatus": "status.queue_status",
        "Scheduler": "loop",
        "SchedulerSettings": "settings.config_file",
        "UsageHistory": "usage",
        "UsageParams": "usage",
        "load_settings": "settings.config_file",
        "read_settings": "settings.config_file",
        "settings_of": "settings.config_file",
    },
)
