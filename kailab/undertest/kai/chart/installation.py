"""KAI's chart installed in a cluster, until it schedules, and taken out again with all that it brought.

Definitions first: Helm never brings them up to date, and never removes them. What an interrupted lab left is found by the note on KAI's
namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kailab.cluster.helm import Chart, Helm, HelmFailed
from kailab.cluster.install import CRD
from kailab.cluster.protocol import Cluster
from kailab.cluster.there import is_there
from kailab.cluster.waiting import look_until, wait_until
from kailab.errors import AlreadyExists, InputError, NotFound
from kailab.fleet.fleet import Pool
from kailab.undertest.contract import SchedulerFailed, Tell
from kailab.undertest.crds import bring_in
from kailab.undertest.kai.chart import standing
from kailab.undertest.kai.chart.rendering import (
    RELEASE,
    check_images,
    has_operator,
    shard_arguments,
    values,
)
from kailab.undertest.kai.chart.source import ChartSource
from kailab.undertest.kai.probing import is_bound, probe_pod, probe_queues, stuck

INSTALL_SECONDS = 900.0  # images of half a gigabyte, on a busy machine
PROBE_SECONDS = 300.0
GONE_SECONDS = 180.0
_LOOK_SECONDS = 1.0

PROBE = "kailab-probe"
_PROBE_QUEUES = ("kailab-probes", PROBE)
_FAKE_GPUS = "run.ai/fake.gpu"  # by a node with this label KAI's operator tells that GPUs here are fake
_SHARD, _SHARD_NAME = "SchedulingShard", "default"


@dataclass(frozen=True)
class Installation:
    """One release, to be in one cluster."""

    helm: Helm
    source: ChartSource

    @cached_property
    def _folder(self) -> TemporaryDirectory[str]:
        return TemporaryDirectory(prefix="kailab-chart-")

    @cached_property
    def _chart(self) -> Chart:
        if self.source.numbered:
            return self.source.chart
        # Its images are called by its number.
        return self.helm.package(self.source.chart, self.source.release, Path(self._folder.name))

    @cached_property
    def _objects(self) -> list[dict[str, Any]]:
        return self.helm.template(RELEASE, self._chart, values(self.source))

    def check(self) -> None:
        """Before anything is started. Raises InputError where images are missing, HelmFailed where there is no such chart."""
        check_images(self.source, self._objects)

    def prepare(self, cluster: Cluster) -> None:
        """KAI's definitions, and the note of who brought them. What another lab's chart left goes first. Raises InputError where KAI is there, and is no lab's."""
        there = standing.installed_release(cluster)
        if there:
            take_out(cluster, self.helm)
        elif found := standing.in_the_way(cluster, self._objects):
            told = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
            raise InputError(
                f"kai@{self.source.release} can't be installed: the cluster has {told}, which is no lab's. Remove it, or let the KAI "
                "that is there decide: --scheduler kai"
            )
        definitions = self.helm.definitions(self._chart)
        try:
            self._note(cluster)
            bring_in(cluster, definitions, "KAI")
        except BaseException:
            take_out(cluster, self.helm)
            raise

    def put_in(
        self, cluster: Cluster, flags: Mapping[str, str], load: Callable[[], None], tell: Tell = lambda _: None
    ) -> None:
        """Returns once a pod was scheduled by it. ``flags``: of its scheduler. ``load``: gives its images to the nodes. Raises
        SchedulerFailed, HelmFailed; then nothing of it is left."""
        try:
            load()
            for node in _node():
                with suppress(AlreadyExists):
                    cluster.create(node)
            tell(f"installing KAI {self.source.release} by its chart")
            self.helm.install(RELEASE, self._chart, values(self.source), INSTALL_SECONDS, lambda: _can_start(cluster))
            told = shard_arguments(self.source.dialect, flags)
            self._configure(cluster, told)
            tell(f"waiting until KAI {self.source.release} schedules")
            self._await(cluster, told)
            _probe(cluster)
        # Ctrl-C too: what is half installed would decide on the pods of the next lab.
        except BaseException:
            take_out(cluster, self.helm)
            raise

    def _note(self, cluster: Cluster) -> None:
        """On KAI's namespace, before anything else of it is there: whoever finds it knows what is to go."""
        names = ",".join(f"{kind}/{name}" for kind, name in standing.wide(self._objects))
        notes = {standing.CHART_NOTE: self.source.release, standing.OBJECTS_NOTE: names}
        metadata = {"name": RELEASE.namespace, "annotations": notes}
        try:
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        except AlreadyExists:
            cluster.patch("Namespace", RELEASE.namespace, None, {"metadata": {"annotations": notes}})

    def _configure(self, cluster: Cluster, told: Mapping[str, str]) -> None:
        if has_operator(self.source.dialect):
            cluster.patch(_SHARD, _SHARD_NAME, None, {"spec": {"args": dict(told)}})

    def _await(self, cluster: Cluster, told: Mapping[str, str]) -> None:
        operator = has_operator(self.source.dialect)

        def lacking() -> str:
            _can_start(cluster)
            return standing.rolled_out(cluster, told, operator)

        left = look_until(lacking, lambda found: not found, INSTALL_SECONDS, pause=_LOOK_SECONDS)
        if left:
            why = standing.failing(cluster)
            raise SchedulerFailed(f"KAI {self.source.release} does not get to work: {left}{f'; {why}' if why else ''}")


def take_out(cluster: Cluster, helm: Helm) -> None:
    """All that a lab's chart has brought, and all that its operator has made. Nothing happens where there is none. Raises
    SchedulerFailed for what does not go."""
    if not standing.installed_release(cluster):
        return
    with suppress(HelmFailed):
        helm.uninstall(RELEASE, GONE_SECONDS)
    noted = standing.noted_objects(cluster)
    crds = [(CRD, crd["metadata"]["name"]) for crd in standing.definitions(cluster)]
    # Webhooks before all else: nobody serves them any more. The namespace with the note last, so that an interruption is found.
    going = [*standing.webhooks(cluster), *crds, *noted, ("Node", PROBE)]
    last = ("Namespace", RELEASE.namespace)
    for kind, name in (*(one for one in dict.fromkeys(going) if one != last), last):
        with suppress(NotFound):
            cluster.delete(kind, name)

    def left() -> list[str]:
        return [f"{kind} {name}" for kind, name in dict.fromkeys([*going, last]) if is_there(cluster, kind, name)]

    if rest := look_until(left, lambda found: not found, GONE_SECONDS, pause=_LOOK_SECONDS):
        raise SchedulerFailed(f"of KAI's chart there is left after {GONE_SECONDS:.0f} s: {', '.join(rest)}")


def _can_start(cluster: Cluster) -> None:
    if lacking := standing.cannot_start(cluster):
        raise SchedulerFailed(f"KAI can't be installed: {lacking}")


def _node() -> list[dict[str, Any]]:
    """A fake node that no work comes to but the probe. It stays: by its label KAI's operator sees that GPUs are fake."""
    pool = Pool(
        name=PROBE, count=1, cpu="1", memory="1Gi", name_template="{pool}", node_labels={_FAKE_GPUS: "true"},
        taints=({"key": PROBE, "value": "", "effect": "NoSchedule"},),
    )  # fmt: skip
    return list(pool.nodes())


def _probe(cluster: Cluster) -> None:
    """Raises SchedulerFailed where it gets no node."""
    queues = probe_queues(*_PROBE_QUEUES)
    for obj in (*queues, probe_pod(PROBE, "default", PROBE, node=PROBE)):
        cluster.create(obj)
    try:
        if not wait_until(lambda: is_bound(cluster, PROBE, "default"), PROBE_SECONDS, pause=_LOOK_SECONDS):
            raise SchedulerFailed(
                f"KAI was installed, and does not schedule: a pod that asks for next to nothing waits since {PROBE_SECONDS:.0f} s; "
                f"{stuck(cluster, PROBE, 'default')}"
            )
    finally:
        with suppress(NotFound):
            cluster.delete("Pod", PROBE, "default", 0)
        for queue in reversed(queues):
            with suppress(NotFound):
                cluster.delete("Queue", queue["metadata"]["name"])
