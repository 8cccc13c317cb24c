"""The scheduling engine: a snapshot and a configuration in, decisions with their reasons out.

The engine is pure: no clock, no I/O, no threads, no Kubernetes client, no logging. Nothing outside of it decides.

The path of a cycle:

- ``cycle.run_cycle`` opens a ``session.Session`` on a ``working.workingset.WorkingSet`` and runs the ``actions`` in
  order.
- ``queueing`` computes fair shares and the order in which jobs are served.
- ``placing`` finds nodes and devices for the tasks of a job.
- ``search`` looks for victims on behalf of consolidation, reclaim and preempt.
- ``ledger`` collects what is decided; ``report`` explains what stays pending and fills in ``decisions.Decisions``.

``snapshot`` holds the input as frozen records, ``working`` the mutable state made from them, ``config`` the settings,
``policies`` the options beyond KAI's behaviour, ``relaxing`` cycles on a changed input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.exports import on_demand

if TYPE_CHECKING:
    from kailab.engine.config import ACTIONS, EngineConfig
    from kailab.engine.cycle import decide, run_cycle
    from kailab.engine.decisions import (
        Action,
        Bind,
        Decisions,
        Evict,
        EvictionTotals,
        KeptPlace,
        Pending,
        PendingCode,
        Pipeline,
        QueueShare,
        QueueState,
        ServingPosition,
        TaskAmounts,
        TaskFit,
    )
    from kailab.engine.policies.contract import (
        Dispatch,
        JobOrder,
        NodeScore,
        Policy,
        QueueShares,
        Reservation,
        VictimOrder,
        register_policy,
    )
    from kailab.engine.policies.dispatching import ClusterView, DispatchJob
    from kailab.engine.policies.settings import Checkpoint, PolicyChoice, SearchBudget, WeightedOrder
    from kailab.engine.policies.views import JobView, NodesView, QueueView, Resources
    from kailab.engine.snapshot.records import (
        GPU,
        UNLIMITED,
        Constraint,
        ContainerRequest,
        GpuRequest,
        Node,
        NodeTerm,
        Numa,
        NumaZone,
        PodGroup,
        PodSet,
        PodTerm,
        PreferredNodes,
        Queue,
        Requirement,
        ResourceClaim,
        Shape,
        Share,
        Status,
        SubGroup,
        Taint,
        Task,
        Toleration,
        Topology,
        ZoneShare,
    )
    from kailab.engine.snapshot.snapshot import Snapshot
    from kailab.engine.working.workingset import WorkingSet
else:
    __getattr__ = on_demand(
        __name__,
        {
            "ACTIONS": "config",
            "EngineConfig": "config",
            "decide": "cycle",
            "run_cycle": "cycle",
            "Action": "decisions",
            "Bind": "decisions",
            "PendingCode": "decisions",
            "Decisions": "decisions",
            "Evict": "decisions",
            "EvictionTotals": "decisions",
            "Pending": "decisions",
            "Pipeline": "decisions",
            "QueueShare": "decisions",
            "KeptPlace": "decisions",
            "QueueState": "decisions",
            "Reservation": "policies.contract",
            "TaskAmounts": "decisions",
            "TaskFit": "decisions",
            "ServingPosition": "decisions",
            "JobOrder": "policies.contract",
            "NodeScore": "policies.contract",
            "Policy": "policies.contract",
            "VictimOrder": "policies.contract",
            "QueueShares": "policies.contract",
            "Dispatch": "policies.contract",
            "ClusterView": "policies.dispatching",
            "DispatchJob": "policies.dispatching",
            "register_policy": "policies.contract",
            "Checkpoint": "policies.settings",
            "PolicyChoice": "policies.settings",
            "SearchBudget": "policies.settings",
            "WeightedOrder": "policies.settings",
            "JobView": "policies.views",
            "NodesView": "policies.views",
            "QueueView": "policies.views",
            "Resources": "policies.views",
            "Constraint": "snapshot.records",
            "ContainerRequest": "snapshot.records",
            "GPU": "snapshot.records",
            "GpuRequest": "snapshot.records",
            "Node": "snapshot.records",
            "NodeTerm": "snapshot.records",
            "Numa": "snapshot.records",
            "NumaZone": "snapshot.records",
            "PodGroup": "snapshot.records",
            "PodSet": "snapshot.records",
            "PodTerm": "snapshot.records",
            "PreferredNodes": "snapshot.records",
            "Queue": "snapshot.records",
            "Requirement": "snapshot.records",
            "ResourceClaim": "snapshot.records",
            "Shape": "snapshot.records",
            "Share": "snapshot.records",
            "Status": "snapshot.records",
            "SubGroup": "snapshot.records",
            "Taint": "snapshot.records",
            "Task": "snapshot.records",
            "Toleration": "snapshot.records",
            "Topology": "snapshot.records",
            "UNLIMITED": "snapshot.records",
            "ZoneShare": "snapshot.records",
            "Snapshot": "snapshot.snapshot",
            "WorkingSet": "working.workingset",
        },
    )

__all__ = [
    "ACTIONS",
    "Action",
    "Bind",
    "Checkpoint",
    "ClusterView",
    "PendingCode",
    "Constraint",
    "ContainerRequest",
    "Decisions",
    "Dispatch",
    "DispatchJob",
    "EngineConfig",
    "Evict",
    "EvictionTotals",
    "GPU",
    "GpuRequest",
    "JobOrder",
    "JobView",
    "Node",
    "NodeScore",
    "NodeTerm",
    "NodesView",
    "Numa",
    "NumaZone",
    "Pending",
    "Pipeline",
    "PodGroup",
    "PodSet",
    "PodTerm",
    "Policy",
    "PolicyChoice",
    "PreferredNodes",
    "Queue",
    "QueueShare",
    "KeptPlace",
    "QueueShares",
    "QueueState",
    "QueueView",
    "Reservation",
    "Requirement",
    "ResourceClaim",
    "Resources",
    "SearchBudget",
    "Shape",
    "Share",
    "Snapshot",
    "Status",
    "SubGroup",
    "Taint",
    "Task",
    "TaskAmounts",
    "TaskFit",
    "Toleration",
    "Topology",
    "ServingPosition",
    "UNLIMITED",
    "VictimOrder",
    "WeightedOrder",
    "WorkingSet",
    "ZoneShare",
    "decide",
    "register_policy",
    "run_cycle",
]
