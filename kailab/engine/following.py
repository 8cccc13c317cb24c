"""Whether a cycle can follow from the binds of the one before it.

A cycle that binds changes the cluster, so another one is due. But its allocate action ends with every waiting job refused, and its
other actions tried all of them on the very state that the binds lead to. If these refused everything too, and nothing but those
binds happens, the next cycle would refuse the same for the same reasons, and need not run.

That holds only where state alone decides: not with a rule that reads the time, and not where a bind may help a waiting job, as
pods that want to be near others do. ``nothing_follows`` is True only in the plain cases, and False otherwise. If no job waits
any more, nothing follows under any configuration.
"""

from __future__ import annotations

from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions
from kailab.engine.faults import imitated_faults
from kailab.engine.policies.contract import JobOrder, make_policy
from kailab.engine.policies.settings import SearchBudget
from kailab.engine.policies.switches import switches
from kailab.engine.working.workingset import ForeseenBinds, WorkingSet

_NO_BUDGET = SearchBudget()


def foresee_binds(working: WorkingSet, config: EngineConfig, decisions: Decisions) -> None:
    """Call after each cycle, before any change of the records, so that ``nothing_follows`` knows what to expect."""
    foreseen = None
    if _only_binds(decisions):
        places = {bind.task: (bind.node, bind.gpu_groups) for bind in decisions.binds}
        lasting = _state_decides(config) and not (working.order_read and _order_ages(config))
        foreseen = ForeseenBinds(places, decisions.started, config, lasting)
    working.foresee(foreseen)


def nothing_follows(working: WorkingSet, config: EngineConfig) -> bool:
    """True if a cycle now would surely decide nothing: the last one only bound, and since then nothing happened but that. In doubt
    False.
    """
    come = working.come_as_foreseen(config)
    if come is None or working.stale:
        return False
    return not working.some_wait() or (come.lasting and _only_equal_jobs_wait(working, config))


def _only_binds(decisions: Decisions) -> bool:
    """True if the cycle only gave away free room, and no rule that reads the time had a say."""
    return (
        bool(decisions.binds)
        and all(bind.action == "allocate" for bind in decisions.binds)
        and not (decisions.evictions or decisions.pipelines or decisions.stale or decisions.heirs or decisions.robbed)
        and not (decisions.kept or decisions.again)
        and decisions.wake_at is None
    )


def _state_decides(config: EngineConfig) -> bool:
    """True if no setting lets the time, past decisions or a number of tries decide."""
    order = config.job_order_policy
    return (
        config.actions[:1] == ("allocate",)
        and "allocate" not in config.actions[1:]
        and switches(config.plugins).kai_order
        and config.use_signatures
        and config.k_value == 0
        and config.victim_order == "queue"
        and config.search_budget == _NO_BUDGET
        and config.max_taken_ratio is None
        and config.max_evictions_per_cycle is None
        and config.weighted_order is None
        and config.aged_after is None
        and config.reservation_policy is None
        and config.queue_shares_policy is None
        and not (config.promised or config.refused or config.max_evictions_by_priority)
        and not any(depth >= 0 for depth in config.queue_depth.values())
        and not imitated_faults(config)
        and (order is None or make_policy(order, JobOrder).lasting)
    )


def _order_ages(config: EngineConfig) -> bool:
    """True if the order of the jobs that run may change by time alone: that in which they are evicted, or would wait again."""
    order = config.job_order_policy
    return config.victim_order_policy is not None or (
        order is not None and make_policy(order, JobOrder).refresh is not None
    )


def _only_equal_jobs_wait(working: WorkingSet, config: EngineConfig) -> bool:
    """True if every waiting job is of a class (``working.jobclass``), and no state counts but amounts on nodes and in queues."""
    if working.topologies or working.claims or working.memory_tasks or working.has_anti_affinity:
        return False
    if working.waiting.delayed or working.table.numa:
        return False
    for queue, classes in working.waiting.classes.items():
        if None in classes:
            return False
        if config.job_order_policy is not None:
            # Whether a job may evict another one depends on the other's key then, which its start may have changed.
            lowest = working.victims.lists.get(queue)
            if lowest and any(of_class is not None and of_class.priority > -lowest[-1][0][0] for of_class in classes):
                return False
    return True
