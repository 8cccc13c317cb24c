"""Inference services whose replicas follow the time of the day, beside the jobs of a trace. From a CSV file.

The columns are ``name``, ``queue``, ``gpus`` (of a replica; less than 1: a share), ``least`` and ``most`` (replicas), ``peak``
(the hour with the most, UTC) and optionally ``priority`` (a PriorityClass, inference by default). The number of replicas
follows a cosine with a period of a day.

Source: Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters", EuroSys 2023, which lends GPUs of inference to
training while the daily load is low.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from math import cos, tau
from pathlib import Path
from typing import NamedTuple

import msgspec

from kailab.cluster.base_objects import PRIORITY_CLASSES
from kailab.cluster.protocol import Cluster, Object
from kailab.errors import InputError
from kailab.lab.seen_names import describe_names
from kailab.model import labels
from kailab.model.objects import labels_of, name_of, priority_of, share_of, uid_of
from kailab.model.times import DAY
from kailab.replay.job import HOUR, WHOLE
from kailab.replay.manifests import NAMESPACE
from kailab.replay.queues import TeamQueues
from kailab.replay.readers.lines import BrokenLine, LineFields, read_table
from kailab.scheduler.reading.podgroups import NON_PREEMPTIBLE_FROM

COLUMNS = ("name", "queue", "gpus", "least", "most", "peak")
STEP = 600
"""Seconds between two changes of the number of replicas, as an autoscaler makes them."""
MOST_REPLICAS = 100_000
_SERVICE = "kailab.dev/service"
_PRIORITY = "inference"
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?", re.ASCII)


class InferenceService(NamedTuple):
    """``milli``: thousandths of a GPU of a replica. ``peak``: seconds after midnight (UTC)."""

    name: str
    queue: str
    milli: int
    least: int
    most: int
    peak: int
    priority: str

    def replicas(self, at: int) -> int:
        """How many replicas are wanted ``at`` a moment of the trace's clock.

        >>> service = InferenceService("search", "q", 1000, 2, 10, 14 * 3600, "inference")
        >>> [service.replicas(hour * 3600) for hour in (2, 8, 14, 26)]
        [2, 6, 10, 2]
        """
        return round(self.least + (self.most - self.least) * (1 + cos(tau * (at - self.peak) / DAY)) / 2)


class ServedReplicas(msgspec.Struct, frozen=True, kw_only=True):
    """Replica-hours of a service: ``wanted``, and ``served`` by running replicas, at most those wanted at each moment."""

    name: str
    wanted: float
    served: float


def read_services(path: Path, queues: Collection[str], classes: Collection[str] = ()) -> tuple[InferenceService, ...]:
    """Read the file. ``queues``: the leaf queues of the replay. ``classes``: PriorityClasses beside the built-in ones. Raises
    InputError for a line that can't be read, and an unknown queue or class."""
    known = {*PRIORITY_CLASSES, *classes}
    found: dict[str, InferenceService] = {}
    for where, service in read_table(path, COLUMNS, "inference services", _service):
        if service.name in found:
            raise InputError(f"duplicate service {service.name!r:.80}; expected each once", where)
        if service.queue not in queues:
            raise InputError(f"no queue {service.queue!r:.80}; {describe_names(queues, service.queue)}", where)
        if service.priority not in known:
            raise InputError(
                f"no PriorityClass {service.priority!r:.80}; {describe_names(known, service.priority)}", where
            )
        found[service.name] = service
    return tuple(found.values())


def beyond_quotas(services: Sequence[InferenceService], queues: TeamQueues) -> list[str]:
    """A warning for each queue in which more replicas are wanted than KAI may start: non-preemptible work gets no GPU beyond
    the quota of its queue, which is 0 for the queues that a replay makes without ``--queues``."""
    values = PRIORITY_CLASSES | {name_of(obj): priority_of(obj) for obj in queues.classes}
    wanted: dict[str, float] = {}
    for service in services:
        if values[service.priority] >= NON_PREEMPTIBLE_FROM:
            wanted[service.queue] = wanted.get(service.queue, 0.0) + service.most * service.milli / WHOLE
    quotas = {name_of(obj): float(share_of(obj).get("quota", 0)) for obj in queues.objects}
    return [
        f"queue {queue}: services want up to {most:g} GPUs for non-preemptible replicas, and its quota is {quotas[queue]:g}; KAI "
        "starts no more than the quota: expected a larger one (--queues FILE), or a priority below 100"
        for queue, most in wanted.items()
        if 0 <= quotas[queue] < most
    ]


def _service(fields: LineFields) -> InferenceService:
    gpus, least, most = fields.number("gpus", least=1 / WHOLE), fields.whole("least"), fields.whole("most", least=1)
    if gpus > 1 and gpus != int(gpus):
        raise BrokenLine(f"gpus is {fields.text('gpus')!r:.80}; expected a whole number, or less than 1")
    if not least <= most <= MOST_REPLICAS:
        raise BrokenLine(f"least is {least} and most is {most}; expected no more than {MOST_REPLICAS}, and least first")
    peak = fields.number("peak")
    if peak >= 24:
        raise BrokenLine(f"peak is {fields.text('peak')!r:.80}; expected an hour from 0 to less than 24")
    name = fields.text("name")
    if not _NAME.fullmatch(name):
        raise BrokenLine(f"name is {name!r:.80}; expected a name of lower-case letters, digits and '-'")
    return InferenceService(
        name, fields.text("queue"), round(gpus * WHOLE), least, most, round(peak * HOUR), fields.text("priority") or _PRIORITY
    )  # fmt: skip


class FollowedServices:
    """The services of a replay: scales their Deployments, and counts the replicas that run.

    ``shift``: the lab's clock less the trace's.
    """

    def __init__(self, cluster: Cluster, services: Sequence[InferenceService], shift: int, now: int) -> None:
        self._cluster, self._services, self._shift = cluster, services, shift
        self._watch = cluster.watch(("Pod",))
        self._running: dict[str, set[str]] = {service.name: set() for service in services}
        self._wanted = {service.name: service.replicas(now - shift) for service in services}
        self._since = now
        self._sums = {service.name: [0, 0] for service in services}
        for service in services:
            cluster.create(_deployment(service, self._wanted[service.name]))

    def scale(self, now: int) -> None:
        """Scale each service to what is wanted now."""
        self.advance_to(now)
        for service in self._services:
            wanted = service.replicas(now - self._shift)
            if wanted != self._wanted[service.name]:
                self._wanted[service.name] = wanted
                self._cluster.patch("Deployment", service.name, NAMESPACE, {"spec": {"replicas": wanted}})

    def advance_to(self, now: int) -> None:
        """Count the time up to ``now``, and take in what has changed by then."""
        for name, sums in self._sums.items():
            wanted, running = self._wanted[name], len(self._running[name])
            sums[0] += wanted * (now - self._since)
            sums[1] += min(wanted, running) * (now - self._since)
        self._since = now
        for event in self._watch.poll():
            service = labels_of(event.object).get(_SERVICE)
            if service in self._running:
                runs = (event.object.get("status") or {}).get("phase") == "Running" and event.type != "DELETED"
                (self._running[service].add if runs else self._running[service].discard)(uid_of(event.object))

    def served(self) -> list[ServedReplicas]:
        """What was wanted and served up to the last look."""
        return [
            ServedReplicas(name=name, wanted=round(wanted / HOUR, 3), served=round(served / HOUR, 3))
            for name, (wanted, served) in self._sums.items()
        ]

    def close(self) -> None:
        self._watch.close()


def _deployment(service: InferenceService, replicas: int) -> Object:
    own = {_SERVICE: service.name, labels.QUEUE: service.queue, labels.PRIORITY_CLASS: service.priority}
    notes = {labels.READY_SECONDS: "0"}
    resources = {}
    if service.milli < WHOLE:
        notes[labels.GPU_FRACTION] = f"{service.milli / WHOLE:g}"
    else:
        resources = {"limits": {labels.GPU_RESOURCE: str(service.milli // WHOLE)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": service.name, "namespace": NAMESPACE, "labels": own},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {_SERVICE: service.name}},
            "template": {
                "metadata": {"labels": own, "annotations": notes},
                "spec": {
                    "schedulerName": labels.SCHEDULER_NAME,
                    "tolerations": [{"key": labels.FAKE_NODE_TAINT, "operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}],
                },
            },
        },
    }
