"""Placement of one task: the best node that fits, and on it the best devices.

Source: KAI's allocateTask, OrderedNodesByTask and gpu_sharing.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from kailab.engine.faults import HELD_GPU
from kailab.engine.placing import fit, node_capacity, podaffinity
from kailab.engine.placing.score import DENSITY, POD_PREFERENCE, node_scores
from kailab.engine.policies.node_scores import ChosenScore
from kailab.engine.queueing.capacity import refuses
from kailab.engine.session import Session
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.claims import ClaimRefusal
from kailab.engine.working.layout import GPUS, PODS
from kailab.engine.working.state import ShapeInfo, WTask

NodeMask = np.ndarray | None  # None: all nodes

# The order of devices for a share: the weight of a device's fullness, and the position of a whole device (lowest
# first).
_SHARING = {"binpack": (1.0, 0.0), "spread": (-1.0, -1.0), "any": (0.0, 0.0)}
_NUMBER = re.compile(r"[+-]?[0-9]+")


class NodePick(NamedTuple):
    """The node found for a shape, valid for one state of the nodes.

    ``node`` -1: none fits. ``now``: it fitted by idle resources. ``single``: the next equal task must look at all nodes
    again, because preferences between pods or the task itself affected the choice. ``preferred``, ``limited``: if none
    fits, the topology scores and the queue whose limit may have been the reason.
    """

    info: ShapeInfo
    nodes: NodeMask
    changes: int
    node: int
    now: bool = False
    single: bool = False
    preferred: np.ndarray | None = None
    limited: tuple[str, bool] | None = None


class Placer:
    """Places tasks for one session.

    Consecutive equal tasks share one look at the nodes: after a task is packed onto the best node, that node is the
    best for the next equal task as long as it fits.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.table = session.table
        self.preferred: np.ndarray | None = None  # topology scores of the current pod set; NaN: node not considered
        # What pods that start together want of the one node for their claim: claim -> resource row -> amount.
        self.together: dict[str, dict[int, int]] = {}
        self._last: NodePick | None = None
        # Tasks (by ``_alike``) that found no room on any node in the state ``_without_room_since``.
        self._without_room: set[tuple[int, str, bool]] = set()
        self._without_room_since = -1
        self._too_large: dict[int, int | None] = {}  # keyed by the id of a ShapeInfo; these live as long as the session
        self._groups = 0
        config, on = session.config, session.switches
        self._gpu = config.gpu_placement if on.node_placement else ""
        self._cpu = config.cpu_placement if on.node_placement else ""
        self._chosen = None
        if config.node_score_policy is not None:
            self._chosen = ChosenScore(session.table, config.node_score_policy)
            # The policy replaces packing and spreading.
            self._gpu = self._cpu = ""

    def place(self, task: WTask, nodes: NodeMask, pipeline_only: bool) -> bool:
        info = task.info
        if self.blocked(task):
            return False
        fast = self._repeat(task, info, nodes, pipeline_only)
        if fast is not None:
            return fast
        alike = self._alike(task, nodes)
        # No node has changed since an equal task was tried.
        if alike is not None and alike in self._without_room:
            self._last = self._no_fit(task, nodes)
            return False
        table = self.table
        now, candidates = self.candidates(task, nodes)
        if self.preferred is not None:
            # As in KAI, nodes outside the ranked domains have no score and are left out.
            candidates &= ~np.isnan(self.preferred)
        if not np.logical_or.reduce(candidates):  # the same as ``any``, but faster
            # The next equal task fails at once, unless a node changes.
            self._last = self._no_fit(task, nodes)
            if alike is not None:
                self._without_room.add(alike)
            return False
        config, on = self.session.config, self.session.switches
        nominated = task.record.nominated_node if on.nominated_node else ""
        scores = node_scores(
            table, info, now, nodes, self._gpu, self._cpu, nominated,
            config.prefer_shared_devices, on.node_availability, on.resource_type,
        )  # fmt: skip
        if self._chosen is not None:
            # At most the weight of packing, so that a policy overrides nothing above it in the scale of ``score``.
            scores = scores + DENSITY * self._chosen.of(task, candidates)
        if table.numa and (aligned := table.numa.scores(info)) is not None:
            scores = scores + aligned
        if self.preferred is not None:
            scores = scores + np.nan_to_num(self.preferred)
        liked = None
        if self.session.working.has_pod_preferences and on.pod_affinity:
            liked = podaffinity.preferences(table, info)
            if liked is not None:
                scores = scores + POD_PREFERENCE * liked
        scores = np.where(candidates, scores, -np.inf)
        while True:
            # The first of equal scores; nodes are sorted by name.
            i = int(scores.argmax())
            if scores[i] == -np.inf:
                return False
            single = liked is not None or (pipeline_only and bool(nominated or task.vacated))
            if self._take_place(task, info, i, bool(now[i]), pipeline_only):
                self._last = NodePick(info, nodes, self.session.changes, i, bool(now[i]), single)
                return True
            # The amounts fit, but the devices do not, so the next best node is tried.
            scores[i] = -np.inf

    def _alike(self, task: WTask, nodes: NodeMask) -> tuple[int, str, bool] | None:
        """The key of tasks that fit on the same nodes; None if more than the shape and the queue matters."""
        if self._without_room_since != self.session.changes:
            self._without_room.clear()
            self._without_room_since = self.session.changes
        info, job = task.info, task.job
        if nodes is not None or self.preferred is not None or job is None or info.requires_pods or info.shape.claims:
            return None
        if self.session.working.has_anti_affinity:
            return None
        return id(info), job.record.queue, job.record.preemptible

    def _no_fit(self, task: WTask, nodes: NodeMask) -> NodePick:
        return NodePick(task.info, nodes, self.session.changes, -1, preferred=self.preferred, limited=_limited(task))

    def candidates(self, task: WTask, nodes: NodeMask) -> tuple[np.ndarray, np.ndarray]:
        """The nodes where the task fits by idle amounts, and the nodes where it may go now or once leaving tasks are
        gone.
        """
        info, table = task.info, self.table
        idle, pool = table.idle, table.free
        if info.shape.claims:
            pool, idle = table.claims.counted(info.shape, pool), table.claims.counted(info.shape, idle)
        now = fit.fits(table, info, idle) if info.shape.gpu.shared or idle is not table.idle else fit.fits(table, info)
        # Without leaving tasks the pools are equal. Only a task that asks for nothing is accepted now without a check.
        later = now if pool is idle and not info.empty else fit.fits(table, info, pool)
        if self.session.config.predicates:
            candidates = later & fit.static_mask(table, info, self.session.working.table_version)
        else:
            candidates = later.copy()
        if nodes is not None:
            candidates &= nodes
        self._narrow(task, info, candidates)
        self._narrow_devices(info, candidates)
        return now, candidates

    def blocked(self, task: WTask) -> bool:
        """True if no node could ever take the task (KAI: pre-predicates that do not depend on victims)."""
        info = task.info
        if info.shape.blocked and self.session.config.predicates:
            return True
        return self.claim_refusal(task) is not None or self.too_large(info) is not None

    def claim_refusal(self, task: WTask) -> ClaimRefusal | None:
        """What is wrong with the task's resource claims on any node, or None."""
        if not task.info.shape.claims or task.job is None:
            return None
        return self.table.claims.refusal(task.uid, task.info.shape, task.job.record.queue)

    def too_large(self, info: ShapeInfo) -> int | None:
        """The resource row of which the task wants more than any single node has, or None."""
        if not self.session.config.predicates:
            return None
        key = id(info)
        if key not in self._too_large:
            # KAI's MaxNodeResourcesPredicate: no eviction can help if even empty nodes are too small.
            largest = self.session.largest_node()
            self._too_large[key] = next((row for row, amount in info.needs if amount > largest[row]), None)
        return self._too_large[key]

    def may_fit(self, tasks: list[WTask], nodes: NodeMask) -> bool:
        """False if these nodes certainly lack room for all tasks even once leaving tasks are gone. Counted for each
        shape alone.
        """
        # Sums of amounts do not show what shared and claimed devices leave free. They also do not show that a task may get
        # back a promise from earlier in the cycle, which takes no new room.
        if not all(task.info.plain and not task.vacated for task in tasks):
            return True
        pool = self.table.free
        for info, wanted in Counter(task.info for task in tasks).items():
            counts = node_capacity.pods_per_node(self.session, info, pool)
            if int((counts if nodes is None else counts[nodes]).sum()) < wanted:
                return False
        return True

    def _repeat(self, task: WTask, info: ShapeInfo, nodes: NodeMask, pipeline_only: bool) -> bool | None:
        last = self._last
        # By identity: equal shapes are interned, and the same mask object is passed on.
        if last is None or last.info is not info or last.nodes is not nodes or last.changes != self.session.changes:
            return None
        # It fitted nowhere, and no node has changed since.
        if last.node < 0:
            return False if last.preferred is self.preferred and last.limited == _limited(task) else None
        shape = info.shape
        if (
            # In these cases another node may be better, or more than amounts has to be checked.
            shape.gpu.shared
            or last.single
            or info.requires_pods
            or info.prefers_pods
            or shape.ports
            or shape.claims
            or (self.table.numa and self.table.numa.concerns(info))
            or self.preferred is not None
            or task.record.nominated_node
            or (self._cpu if info.cpu_only else self._gpu) != "binpack"
        ):
            return None
        # Packing has made this node the fullest of those that fit; all other filters depend on the shape.
        i, idle, releasing = last.node, self.table.idle, self.table.releasing
        for row, amount in info.needs:
            free = idle[row, i]
            # A node where it fits now comes before nodes where it would wait; that must not have changed.
            if (free < amount and (last.now or not pipeline_only)) or free + releasing[row, i] < amount:
                return None
        # A task that gives up a promised place may free room elsewhere.
        single = pipeline_only and bool(task.vacated)
        self._take_place(task, info, i, True, pipeline_only)
        self._last = NodePick(info, nodes, self.session.changes, i, last.now, single)
        return True

    def _narrow(self, task: WTask, info: ShapeInfo, candidates: np.ndarray) -> None:
        """Remove nodes because of other pods and of the node's shared devices."""
        session, shape = self.session, info.shape
        if not session.config.predicates:
            return
        if info.requires_pods or session.working.has_anti_affinity:
            podaffinity.narrow(self.table, task, candidates)
        if shape.ports:
            podaffinity.narrow_ports(self.table, shape, candidates)
        if shape.gpu.shared:
            self._narrow_shared(task, info, candidates)

    def _narrow_devices(self, info: ShapeInfo, candidates: np.ndarray) -> None:
        """Remove nodes whose kubelet would not align the resources, or that cannot serve the claims."""
        table = self.table
        if table.numa:
            table.numa.narrow(info, candidates)
        if info.shape.claims:
            table.claims.narrow(info.shape, candidates)
            if self.together:
                self._narrow_together(info, candidates)

    def _narrow_together(self, info: ShapeInfo, candidates: np.ndarray) -> None:
        """The first pod of a claim decides the node of all that start with it, so prefer nodes with room for all of
        them.
        """
        table = self.table
        for name in info.shape.claims:
            if name in self.together and table.claims.node_of(name) is None:
                room_for_all = candidates.copy()
                for row, amount in self.together[name].items():
                    room_for_all &= table.free_of(row) >= amount
                if room_for_all.any():
                    candidates &= room_for_all

    def _narrow_shared(self, task: WTask, info: ShapeInfo, candidates: np.ndarray) -> None:
        """Remove nodes where the share would exceed its queue's bounds, or where a newly shared device lacks a pod slot
        for its reservation pod.
        """
        table, gpu = self.table, info.shape.gpu
        job = task.job
        assert job is not None
        queue = self.session.queue_of(job)
        if queue is not None:
            # The amount depends only on the size of the devices.
            for size in table.shares.sizes:
                wanted = (info.shape.cpu, info.shape.memory, gpu.share_counted(size.memory))
                if refuses(queue, wanted, job.record.preemptible) is not None:
                    candidates &= ~size.nodes
        for i in (candidates & (table.free_of(PODS) < 2)).nonzero()[0]:
            if self._opens_device(task, int(i)):
                candidates[i] = False

    def _opens_device(self, task: WTask, i: int) -> bool:
        chosen = self._choose_groups(task, i, False)
        # KAI (isNewGpuGroup) takes a device whose name is not a number for a new one. In a cluster no name is a number, so
        # a share of a device in use needs the second slot too.
        return chosen is None or not all(_NUMBER.fullmatch(name) for name in chosen[0])

    def _take_place(self, task: WTask, info: ShapeInfo, i: int, fits_now: bool, pipeline_only: bool) -> bool:
        session, name = self.session, self.table.nodes[i].name
        groups: tuple[str, ...] = ()
        zones = self.table.numa.place(info, i) if self.table.numa else ()
        # Simulations only promise, because the victims have to leave first.
        wait = pipeline_only or not fits_now
        if info.shape.gpu.shared:
            chosen = self._choose_groups(task, i, pipeline_only)
            if chosen is None:
                return False
            # The devices decide, not the node: a share may wait for a device although another is free.
            names, waits = chosen
            groups = tuple(group or self._new_group(task) for group in names)
            wait = pipeline_only or waits
        if wait:
            session.pipeline(task, name, groups, keep_in_place=pipeline_only or info.shape.gpu.shared, zones=zones)
        else:
            session.allocate(task, name, groups, zones)
        return True

    def _new_group(self, task: WTask) -> str:
        self._groups += 1
        # Names depend only on the input, so that the same cycle gives the same names.
        return f"{task.uid}-{int(self.session.now)}-{self._groups}"

    def _choose_groups(self, task: WTask, i: int, pipeline_only: bool) -> tuple[list[str], bool] | None:
        """Devices for a share: group names ("" for a new device), and whether the share has to wait for them."""
        table, info = self.table, task.info
        gpu = info.shape.gpu
        shared = table.sharing(i)
        memory = gpu.share_memory(shared.memory)
        fits_now = bool(self._shared_now_at(info, i))
        # A whole device may be taken now only if it is idle. ``fits_now`` does not tell, because a shared device with room
        # makes it true as well. KAI (findGpuForSharingOnNode) asks only ``fits_now``.
        unopened = gpu.devices if self.session.imitates(HELD_GPU) else max(int(table.idle[GPUS, i]), 0) // GPU
        chosen: list[str] = []
        waits = False
        for name in self._devices(task, i, memory):
            if not name:
                waits = waits or pipeline_only or not fits_now or unopened == 0
                unopened -= 1
            else:
                waits = waits or not shared.fits_now(shared.groups[name], memory) or not fits_now
            chosen.append(name)
            # Each shared device is listed once, so two shares of a task never get the same one.
            if len(chosen) == gpu.devices:
                return chosen, waits
        return None

    def _devices(self, task: WTask, i: int, memory: int) -> list[str]:
        """Group names with room for a share of ``memory`` MiB, and "" for each whole device, the best first."""
        shared = self.table.sharing(i)
        fitting = [(name, group) for name, group in shared.groups.items() if shared.fits(group, memory)]
        idle, releasing = int(self.table.idle[GPUS, i]), int(self.table.releasing[GPUS, i])
        whole = 0
        # Promises make ``releasing`` negative. As in KAI (filterGpusByEnoughResources), each pool is rounded to whole
        # devices by itself.
        if idle > 0 or releasing > 0:
            whole = int(idle / GPU) + int(releasing / GPU)
        fuller, whole_first = _SHARING[self.session.config.gpu_sharing]
        policy_scores = None
        if self._chosen is not None:
            fitting.sort(key=lambda item: item[0])
            room = [shared.room(group) * GPU // shared.memory for _, group in fitting]
            policy_scores = self._chosen.devices(task, i, room + [GPU] * (whole > 0))
        if policy_scores is not None:
            liked = [-score for score in policy_scores[: len(fitting)]]
            whole_first = -policy_scores[-1]
        else:
            # Promises count as used, as in KAI (GetUsedGpuPortion).
            liked = [-(group.used / shared.memory if shared.memory else 0.0) * fuller for _, group in fitting]
        # Ties go by name, a whole device last; KAI leaves them to the order of a Go map. With KAI's faults imitated they
        # go by the order in which the devices were first used, which is the most frequent one.
        ties: list[Any] = list(range(len(fitting))) if self.table.devices_by_age else [name for name, _ in fitting]
        options = [(order, False, tie, name) for order, tie, (name, _) in zip(liked, ties, fitting, strict=True)]
        options += [(whole_first, True, "", "")] * whole
        return [name for *_, name in sorted(options)]

    def _shared_now_at(self, info: ShapeInfo, i: int) -> bool:
        idle = self.table.idle
        if any(idle[row, i] < amount for row, amount in info.needs):
            return False
        gpu = info.shape.gpu
        if gpu.memory_mib > self.table.gpu_memory[i] and not self.table.memory_fits(gpu)[i]:
            return False
        whole = int(idle[GPUS, i]) // GPU
        return whole + min(self.table.sharing(i).fitting(gpu), gpu.devices) >= gpu.devices


def _limited(task: WTask) -> tuple[str, bool] | None:
    """The queue whose limit may refuse every node to a share, or None. The limit is checked for each size of device, so
    other tasks of the shape may fit.
    """
    job = task.job
    return (job.record.queue, job.record.preemptible) if job is not None and task.info.shape.gpu.shared else None
