"""SIG scheduler-plugins as a scheduler under test: kube-scheduler with coscheduling and capacity scheduling, as a process beside a plane.

A queue is a namespace with an ElasticQuota, because capacity scheduling knows no other owner of work: quota is ``min``, limit is ``max``.
Work moves to the namespace of its queue; an annotation keeps its original namespace. A gang is a PodGroup that its pods name by a label.
Capacity scheduling lends no more than the sum of all ``min``, while KAI lends all capacity. So the capacity beyond all quotas is the
``min`` of one more namespace, in which nothing runs.

It is idle when its metrics show no pod to try now or soon and no pod being bound, and when no rejected gang waits for its next try.

Source of its names and conditions: apis/scheduling/v1alpha1, pkg/capacityscheduling and pkg/coscheduling of scheduler-plugins;
pkg/scheduler/framework/preemption of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.protocol import Cluster
from kailab.components import ComponentSet, find_addon
from kailab.engine.snapshot.records import UNLIMITED, Queue
from kailab.errors import NotFound
from kailab.model.callbacks import Tell
from kailab.model.kinds import kind_key
from kailab.model.manifests import object_name
from kailab.model.objects import Object, annotations_of, labels_of, metadata_of, name_of, namespace_of
from kailab.model.private_files import write_text
from kailab.undertest import contract, programs, translation

NAME = "scheduler-plugins"
SCHEDULER_NAME = "scheduler-plugins-scheduler"  # the name in its Helm chart
API_VERSION = "scheduling.x-k8s.io/v1alpha1"
GANG = "scheduling.x-k8s.io/pod-group"

_PREEMPTED = re.compile(r"^\S+: preempting to accommodate a higher priority pod$")
_OVER_MAX = re.compile(r"because ElasticQuota \S+ is more than Max")


# --- translation ------------------------------------------------------------------------------------------------------

WRITTEN_FOR = "kailab.dev/written-for"
"""Annotation of an object in its queue's namespace: its original namespace."""

UNOWNED = "kailab-unowned"

# More than any cluster has; the sum of several still fits in 64 bits.
_NO_BOUND = {"gpu": "1000000", "cpu": "1000000", "memory": "1Pi"}
_PATIENCE_SECONDS = 10  # how long a gang waits for its last pods, as in the plugin's tutorial
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class _Translation:
    def __init__(self, queues: translation.AppliedQueues, reading: translation.WorkReader, there: Cluster) -> None:
        self._queues = queues
        self._reading = reading
        self._there = there
        self._gangs: set[tuple[str, str]] = set()

    def of(self, obj: Object) -> Iterator[Object]:
        kind = kind_key(obj)
        if kind == "Queue":
            yield from self._queue(obj)
        elif kind == "PodGroup":
            work = self._reading.of_group(obj)
            self._check(work, obj)
            yield self._moved(obj, work.queue)
            yield from self._gang(work)
        elif works := self._reading.of(obj):
            for work in works:
                self._check(work, obj)
            if len({work.queue for work in works}) > 1:
                raise contract.NotExpressible(NAME, "object with work of several queues", object_name(obj))
            # Before its pods, because pods without it are refused for good.
            for work in works:
                yield from self._gang(work)
            yield self._moved(translation.rewrite_templates(obj, works, SCHEDULER_NAME, _edit_template), works[0].queue)
        else:
            yield obj

    def _queue(self, obj: Object) -> Iterator[Object]:
        """KAI's own Queue stays, because labs count by it; this scheduler ignores it."""
        yield obj
        queue = self._queues.by_name[name_of(obj)]
        if queue.name in self._queues.parents:
            return
        if not _NAMESPACE.fullmatch(queue.name):
            raise contract.NotExpressible(NAME, "queue whose name can't be a namespace's", object_name(obj))
        yield from _space(queue.name)
        # Without any limit the ElasticQuota has no ``max``.
        limited = any(translation.share_in(queue, name).limit != UNLIMITED for name in translation.RESOURCES)
        yield _elastic_quota(queue.name, _amounts(queue, "quota"), _amounts(queue, "limit") if limited else {})

    def _check(self, work: translation.TemplateWork, obj: Object) -> None:
        self._queues.check_work(work.queue, NAME, object_name(obj))
        # Pods in a namespace above its min may be evicted, whatever they are; and non-preemptible pods may exceed it too.
        if not work.preemptible:
            raise contract.NotExpressible(NAME, "work that is not to be preempted", object_name(obj))

    def _gang(self, work: translation.TemplateWork) -> Iterator[Object]:
        if work.gang and (work.queue, work.gang) not in self._gangs:
            self._gangs.add((work.queue, work.gang))
            yield {
                "apiVersion": API_VERSION,
                "kind": "PodGroup",
                "metadata": {"name": work.gang, "namespace": work.queue},
                "spec": {"minMember": work.min_member, "scheduleTimeoutSeconds": _PATIENCE_SECONDS},
            }

    def _moved(self, obj: Object, queue: str) -> Object:
        origin = namespace_of(obj) or translation.DEFAULT_NAMESPACE
        if name := name_of(obj):
            self._check_place(kind_key(obj), name, queue, origin)
        notes = {**annotations_of(obj), WRITTEN_FOR: origin}
        return {**obj, "metadata": {**metadata_of(obj), "namespace": queue, "annotations": notes}}

    def _check_place(self, kind: str, name: str, queue: str, origin: str) -> None:
        try:
            there = self._there.get(kind, name, queue)
        except NotFound:
            return
        if annotations_of(there).get(WRITTEN_FOR, queue) != origin:
            raise contract.NotExpressible(
                NAME, "queue with two objects of one name in several namespaces", f"{kind}/{name}"
            )


def _edit_template(metadata: dict[str, Any], spec: dict[str, Any], work: translation.TemplateWork) -> None:
    if work.gang:
        metadata["labels"][GANG] = work.gang


def _space(name: str) -> Iterator[Object]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    # A controller creates it too, but later: until then the namespace accepts no pods.
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}


def _elastic_quota(namespace: str, least: dict[str, str], most: dict[str, str]) -> Object:
    spec = {"min": least, **({"max": most} if most else {})}
    metadata = {"name": "quota", "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": "ElasticQuota", "metadata": metadata, "spec": spec}


def _amounts(queue: Queue, field: Literal["quota", "limit"]) -> dict[str, str]:
    amounts = {
        translation.RESOURCE_NAMES[name]: _amount(name, getattr(translation.share_in(queue, name), field))
        for name in translation.RESOURCES
    }
    # A resource that is not named counts as 0, and a namespace above its amount of any resource is above the whole amount.
    return {**amounts, "ephemeral-storage": _NO_BOUND["memory"]}


def _unowned(queues: translation.AppliedQueues) -> Iterator[Object]:
    rest: dict[str, str] = {}
    for name in translation.RESOURCES:
        quotas = [translation.share_in(leaf, name).quota for leaf in queues.leaves]
        free = 0 if UNLIMITED in quotas else max(0, queues.capacity(name) - sum(quotas))
        rest[translation.RESOURCE_NAMES[name]] = _amount(name, free)
    yield from _space(UNOWNED)
    yield _elastic_quota(UNOWNED, rest, {})


def _amount(resource: str, amount: int) -> str:
    return _NO_BOUND[resource] if amount == UNLIMITED else translation.format_quantity(resource, amount)


# --- idle detection ---------------------------------------------------------------------------------------------------

RETRY_SECONDS = 45.0
"""Pods that Coscheduling has rejected wait for another pod, or until kube-scheduler retries all pods: here every 30 s (see ``process``),
plus up to 10 s of back-off."""

_READINGS = 3  # one reading from before the change, and two after it
# A pod that waits for the rest of its gang counts as being bound.
_BUSY = re.compile(
    r'^scheduler_(?:pending_pods\{queue="(?:active|backoff)"\}|goroutines\{[^}]*"binding"[^}]*\}) (\S+)$', re.MULTILINE
)


class SchedulerPluginsIdleDetector:
    """``plane``: that runs it; ``cluster``: a client of it."""

    def __init__(self, plane: contract.Plane, cluster: Cluster) -> None:
        self._plane = plane
        self._next_try = programs.RetryTracker(cluster, RETRY_SECONDS, lambda pod: GANG in labels_of(pod))
        self._idle = 0

    def changed(self) -> None:
        self._idle = 0

    def is_idle(self) -> bool:
        own = next((process for process in self._plane.processes() if process.name == NAME), None)
        if own is None or not own.running:
            programs.check_programs(self._plane, (NAME,))
            return True
        text, problem = programs.fetch_url(f"https://{LOOPBACK}:{own.port}/metrics")
        busy = [float(count) for count in _BUSY.findall(text)]
        self._idle = self._idle + 1 if problem is None and busy and not any(busy) else 0
        # Evaluate both each time, so that neither misses a change.
        owed = self._next_try.owed()
        return self._idle >= _READINGS and not owed


# --- the process ------------------------------------------------------------------------------------------------------

_OPEN = "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics"
# Coscheduling does not subscribe to deleted pods (EventsToRegister): a rejected gang is retried when another pod comes, or after this
# time, checked every 30 s; the default is 5 min.
_TRY_AGAIN = "--pod-max-in-unschedulable-pods-duration=1s"


class SchedulerPluginsProcesses(programs.AddonProcesses):
    name = NAME

    def prepare(self, cluster: Cluster) -> None:
        """Apply its PodGroup and ElasticQuota CRDs. Raises MissingComponents if it is not installed."""
        programs.install_definitions(cluster, self._addon.manifests.objects("config/crd/bases/*.yaml"), NAME)

    def start(self, cluster: Cluster, start: contract.StartSettings, tell: Tell = lambda _: None) -> None:
        """Returns when it is ready. Raises MissingComponents if it is not installed."""
        self.prepare(cluster)
        config = Path(self._plane.folder) / "scheduler-plugins.yaml"
        write_text(config, yaml.safe_dump(configuration(self._plane.kubeconfig), sort_keys=False))
        programs.on_free_ports(lambda: programs.run_programs(self._plane, [self._program(config)]))

    def _program(self, config: Path) -> programs.Program:
        (port,) = free_ports(1)
        arguments = (
            f"--config={config}",
            f"--authentication-kubeconfig={self._plane.kubeconfig}",
            f"--authorization-kubeconfig={self._plane.kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            _OPEN,
            _TRY_AGAIN,
        )
        works = programs.health_check(f"https://{LOOPBACK}:{port}/readyz")
        return programs.Program(NAME, self._addon.programs[NAME], arguments, port, works)

    def idle_detector(self, cluster: Cluster) -> contract.IdleDetector:
        return SchedulerPluginsIdleDetector(self._plane, cluster)


def configuration(kubeconfig: Path) -> dict[str, Any]:
    """One profile, as in the documents of both plugins. Coscheduling's PostFilter is disabled: the first PostFilter plugin that succeeds
    ends the search, and without CapacityScheduling's nothing is reclaimed."""
    profile = {
        "schedulerName": SCHEDULER_NAME,
        "plugins": {
            "multiPoint": {"enabled": [{"name": "Coscheduling"}, {"name": "CapacityScheduling"}]},
            "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
            "postFilter": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]},
        },
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
        "profiles": [profile],
    }


# --- scheduler-plugins as a scheduler under test ----------------------------------------------------------------------


@dataclass(frozen=True)
class SchedulerPlugins(contract.SchedulerUnderTest):
    """kube-scheduler with the plugins Coscheduling and CapacityScheduling."""

    title = "scheduler-plugins"
    scheduler_name = SCHEDULER_NAME
    sets_conditions = True
    give_up_seconds = 60.0  # longer than a gang may wait for its next attempt

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        queues = translation.AppliedQueues(objects, there)
        translator = _Translation(queues, translation.WorkReader(objects, there, NAME), there)
        changed = [index for index, obj in enumerate(objects) if kind_key(obj) == "Queue"]
        if changed:
            queues.refuse_tree(NAME)
            queues.refuse_weights(NAME)
            queues.refuse_priorities(NAME)
            queues.refuse_min_runtimes(NAME)
        translations = [list(translator.of(obj)) for obj in objects]
        if changed:
            translations[changed[-1]] += _unowned(queues)
        return translations

    def space_of(self, kind: str, name: str, namespace: str, there: Cluster) -> str:
        try:
            there.get(kind, name, namespace)
        except NotFound:
            for obj in there.list(kind):
                if name_of(obj) == name and annotations_of(obj).get(WRITTEN_FOR) == namespace:
                    return namespace_of(obj)
        return namespace

    def beside(self, plane: contract.Plane, programs: ComponentSet | None = None) -> SchedulerPluginsProcesses:
        return SchedulerPluginsProcesses(plane)

    def check_options(self) -> None:
        """Raises MissingComponents if it is not installed."""
        find_addon(NAME)

    def eviction(self, message: str) -> contract.EvictionCondition | None:
        """Reclaim between queues and preemption in a queue have the same message."""
        return contract.EvictionCondition("preempt", "") if _PREEMPTED.match(message) else None

    def code(self, message: str) -> str:
        """Empty for messages of any kube-scheduler."""
        return "OverLimit" if _OVER_MAX.search(message) else ""
