"""Install KAI's Helm chart in a cluster until it schedules, and uninstall it with all that it created.

``InstalledKai`` does it for a plane, ``Installation`` for one release and cluster. Helm never updates or removes CRDs, so they are
applied first and deleted explicitly. An annotation on KAI's namespace names the release and its cluster-wide objects, so that the
remains of an interrupted lab are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kailab.cluster.connect import connect
from kailab.cluster.helm import Chart, Helm, HelmFailed, find_helm, missing_image
from kailab.cluster.install import CRD, INSTALLED_BY, install
from kailab.cluster.polling import poll_until, wait_until
from kailab.cluster.protocol import Cluster, object_exists
from kailab.errors import AlreadyExists, InputError, NotFound
from kailab.fleet.fleet import Pool
from kailab.model.callbacks import Tell
from kailab.model.kinds import key_of
from kailab.model.objects import (
    Object,
    annotations_of,
    conditions_of,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    node_of,
    phase_of,
    status_of,
)
from kailab.model.times import parse_time
from kailab.scheduler.settings.config_file import settings_of
from kailab.undertest.contract import (
    Plane,
    SchedulerFailed,
    SchedulerProcesses,
    StartSettings,
    TakesImages,
    Unsupported,
)
from kailab.undertest.kai import chart
from kailab.undertest.kai.probe import is_bound, probe_pod, probe_queues, stuck_stage
from kailab.undertest.kai.settings import WHO, kai_arguments
from kailab.undertest.programs import install_definitions

CHART_NOTE = "kailab.dev/kai-chart"
"""Annotation of KAI's namespace: the release whose chart a lab installed."""
OBJECTS_NOTE = "kailab.dev/kai-chart-objects"
"""Annotation of KAI's namespace: the cluster-wide objects of that chart, as ``Kind/name`` separated by commas."""

_ADMISSION = "admissionregistration.k8s.io"
_WIDE = {
    "Namespace": "",
    "PriorityClass": "scheduling.k8s.io",
    "ClusterRole": "rbac.authorization.k8s.io",
    "ClusterRoleBinding": "rbac.authorization.k8s.io",
    "MutatingWebhookConfiguration": _ADMISSION,
    "ValidatingWebhookConfiguration": _ADMISSION,
}
KEYS = {kind: key_of(f"{group}/v1" if group else "v1", kind) for kind, group in _WIDE.items()}
"""Kinds of cluster-wide objects in KAI's charts -> their kind keys, in the order of checking."""

_GROUPS = ("scheduling.run.ai", "kai.scheduler")
_UNPLACED_SECONDS = 120.0


def installed_release(cluster: Cluster) -> str:
    """The release that a lab installed, or ""."""
    return annotations_of(_namespace(cluster)).get(CHART_NOTE, "")


def noted_objects(cluster: Cluster) -> list[tuple[str, str]]:
    """(kind key, name) of the cluster-wide objects of the installed chart."""
    noted = annotations_of(_namespace(cluster)).get(OBJECTS_NOTE, "")
    pairs = (entry.partition("/") for entry in noted.split(",") if entry)
    return [(KEYS[kind], name) for kind, _, name in pairs if kind in KEYS]


def cluster_wide_objects(objects: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(kind, name) of the cluster-wide objects among those of a chart."""
    pairs = [(obj["kind"], name_of(obj)) for obj in objects if obj.get("kind") in KEYS]
    return sorted(set(pairs), key=lambda pair: ([*KEYS].index(pair[0]), pair[1]))


def conflicting_objects(cluster: Cluster, objects: list[dict[str, Any]]) -> list[str]:
    """Existing objects that the chart would create and that no lab has created. Helm would take them over, and delete them in the end."""
    result = [f"{CRD} {name_of(crd)}" for crd in definitions_of_chart(cluster) if not _labs(crd)]
    names = [*cluster_wide_objects(objects), ("Namespace", chart.RELEASE.namespace)]
    for kind, name in dict.fromkeys(names):
        try:
            obj = cluster.get(KEYS[kind], name)
        except NotFound:
            continue
        if not _labs(obj):
            result.append(f"{kind} {name}")
    return result


def definitions_of_chart(cluster: Cluster) -> list[Object]:
    """The CRDs of KAI's kinds in the cluster."""
    return [crd for crd in cluster.list(CRD) if crd["spec"]["group"] in _GROUPS]


def webhooks_of_chart(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """(kind key, name) of configurations that call services of KAI's namespace; its operator creates them."""
    for kind in (key for key in KEYS.values() if key.endswith(_ADMISSION)):
        for obj in cluster.list(kind):
            clients = [webhook.get("clientConfig") or {} for webhook in obj.get("webhooks") or ()]
            if any((client.get("service") or {}).get("namespace") == chart.RELEASE.namespace for client in clients):
                yield kind, name_of(obj)


def missing_images(cluster: Cluster) -> str:
    """The first pod of KAI whose image can't be pulled, or that has had no node for long, and the reason; "" if there is none."""
    for pod in cluster.list("Pod", chart.RELEASE.namespace):
        if refused := _unplaced(pod, cluster.now()):
            return refused
        if lacking := missing_image(pod):
            return lacking
    return ""


def _unplaced(pod: Object, now: float) -> str:
    if node_of(pod) or is_terminating(pod):
        return ""
    since = parse_time(metadata_of(pod)["creationTimestamp"])
    why = _message(pod, "reason", "Unschedulable")
    return f"pod {name_of(pod)} has no node: {why}" if why and now - since > _UNPLACED_SECONDS else ""


def _message(pod: Object, key: str, value: str) -> str:
    """The message of the first condition with that value, or ""."""
    return next((item.get("message", "") for item in conditions_of(pod) if item.get(key) == value), "")


def failure_of_pods(cluster: Cluster) -> str:
    """The first pod of KAI that does not run, and the reason; "" if all do."""
    for pod in cluster.list("Pod", chart.RELEASE.namespace):
        status = status_of(pod)
        if status.get("phase") == "Succeeded" or is_terminating(pod):
            continue
        for container in status.get("containerStatuses") or ():
            state = container.get("state") or {}
            if (reason := state.get("waiting") or state.get("terminated")) is not None:
                last = (container.get("lastState") or {}).get("terminated") or {}
                code = f" (it ended with {last['exitCode']})" if "exitCode" in last else ""
                return f"pod {name_of(pod)}: {reason.get('reason', 'not running')}{code}"
        if not status.get("containerStatuses"):
            return f"pod {name_of(pod)}: {phase_of(pod)} {_message(pod, 'status', 'False')}".rstrip()
    return ""


def rollout_gaps(cluster: Cluster, flags: Mapping[str, str], scheduler: bool) -> str:
    """What is missing until KAI's Deployments are complete; "" once they are. ``flags``: those that its scheduler must have; ``scheduler``:
    whether an operator still has to create its Deployment."""
    deployments = cluster.list("Deployment", chart.RELEASE.namespace)
    schedulers = [deployment for deployment in deployments if _runs_scheduler(deployment)]
    if scheduler and not schedulers:
        return "the operator has not created the scheduler's Deployment"
    for deployment in schedulers:
        arguments = [arg for box in _containers(deployment) for arg in box.get("args") or ()]
        if lacking := [flag for flag, value in flags.items() if f"--{flag}={value}" not in arguments]:
            return f"Deployment {name_of(deployment)} lacks the flag --{lacking[0]}"
    for deployment in deployments:
        wanted, status = deployment["spec"].get("replicas", 1), status_of(deployment)
        fresh = status.get("observedGeneration") == metadata_of(deployment).get("generation")
        if not fresh or any(
            status.get(key, 0) != wanted for key in ("updatedReplicas", "availableReplicas", "replicas")
        ):
            return f"Deployment {name_of(deployment)} is not available"
    return ""


def _runs_scheduler(deployment: Object) -> bool:
    # By its image, because releases name the Deployment differently.
    return any("/scheduler:" in str(box.get("image", "")) for box in _containers(deployment))


def _containers(deployment: Object) -> list[Object]:
    return deployment["spec"]["template"]["spec"]["containers"]


def _namespace(cluster: Cluster) -> Object:
    try:
        return cluster.get("Namespace", chart.RELEASE.namespace)
    except NotFound:
        return {}


def _labs(obj: Object) -> bool:
    return INSTALLED_BY in labels_of(obj) or CHART_NOTE in annotations_of(obj)


# --- installation -----------------------------------------------------------------------------------------------------

INSTALL_SECONDS = 900.0  # images of half a gigabyte, on a busy machine
PROBE_SECONDS = 300.0
GONE_SECONDS = 180.0
_POLL_SECONDS = 1.0

PROBE = "kailab-probe"
_PROBE_QUEUES = ("kailab-probes", PROBE)
_FAKE_GPUS = "run.ai/fake.gpu"  # KAI's operator takes GPUs as fake if a node has this label
_SHARD, _SHARD_NAME = "SchedulingShard", "default"


@dataclass(frozen=True)
class Installation:
    """Installs one release in one cluster."""

    helm: Helm
    source: chart.ChartSource

    @cached_property
    def _folder(self) -> TemporaryDirectory[str]:
        return TemporaryDirectory(prefix="kailab-chart-")

    @cached_property
    def _chart(self) -> Chart:
        if self.source.numbered:
            return self.source.chart
        # The release number is the tag of its images.
        return self.helm.package(self.source.chart, self.source.release, Path(self._folder.name))

    @cached_property
    def _objects(self) -> list[dict[str, Any]]:
        return self.helm.template(chart.RELEASE, self._chart, chart.chart_values(self.source))

    def check(self) -> None:
        """Check before anything is started. Raises InputError for missing images, HelmFailed for a missing chart."""
        chart.check_images(self.source, self._objects)

    def prepare(self, cluster: Cluster) -> None:
        """Apply KAI's CRDs and annotate its namespace, after removing the remains of another lab's chart. Raises InputError if the cluster has a
        KAI that no lab installed."""
        there = installed_release(cluster)
        if there:
            uninstall_chart(cluster, self.helm)
        elif conflicts := conflicting_objects(cluster, self._objects):
            names = ", ".join(conflicts[:5]) + (f" and {len(conflicts) - 5} more" if len(conflicts) > 5 else "")
            raise InputError(
                f"kai@{self.source.release} can't be installed: the cluster has {names}, which no lab installed. Remove it, or let the existing KAI "
                "decide: --scheduler kai"
            )
        definitions = self.helm.definitions(self._chart)
        try:
            self._note(cluster)
            install_definitions(cluster, definitions, "KAI")
        except BaseException:
            uninstall_chart(cluster, self.helm)
            raise

    def put_in(
        self, cluster: Cluster, flags: Mapping[str, str], load: Callable[[], None], tell: Tell = lambda _: None
    ) -> None:
        """Install the chart, and return when KAI has scheduled a pod. ``flags``: of its scheduler. ``load``: loads its images into the nodes. Raises
        SchedulerFailed, HelmFailed; then nothing of KAI is left."""
        try:
            load()
            for node in _node():
                with suppress(AlreadyExists):
                    cluster.create(node)
            tell(f"installing KAI {self.source.release} by its chart")
            self.helm.install(
                chart.RELEASE,
                self._chart,
                chart.chart_values(self.source),
                INSTALL_SECONDS,
                lambda: _can_start(cluster),
            )
            arguments = chart.shard_arguments(self.source.dialect, flags)
            self._configure(cluster, arguments)
            tell(f"waiting until KAI {self.source.release} schedules")
            self._await(cluster, arguments)
            _probe(cluster)
        # Also after Ctrl-C: a partial installation would schedule the pods of the next lab.
        except BaseException:
            uninstall_chart(cluster, self.helm)
            raise

    def _note(self, cluster: Cluster) -> None:
        """Annotate KAI's namespace before anything else exists, so that a later lab knows what to delete."""
        names = ",".join(f"{kind}/{name}" for kind, name in cluster_wide_objects(self._objects))
        notes = {CHART_NOTE: self.source.release, OBJECTS_NOTE: names}
        metadata = {"name": chart.RELEASE.namespace, "annotations": notes}
        try:
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        except AlreadyExists:
            cluster.patch("Namespace", chart.RELEASE.namespace, None, {"metadata": {"annotations": notes}})

    def _configure(self, cluster: Cluster, flags: Mapping[str, str]) -> None:
        if chart.has_operator(self.source.dialect):
            cluster.patch(_SHARD, _SHARD_NAME, None, {"spec": {"args": dict(flags)}})

    def _await(self, cluster: Cluster, flags: Mapping[str, str]) -> None:
        operator = chart.has_operator(self.source.dialect)

        def lacking() -> str:
            _can_start(cluster)
            return rollout_gaps(cluster, flags, operator)

        left = poll_until(lacking, lambda missing: not missing, INSTALL_SECONDS, pause=_POLL_SECONDS)
        if left:
            why = failure_of_pods(cluster)
            raise SchedulerFailed(f"KAI {self.source.release} does not work: {left}{f'; {why}' if why else ''}")


def uninstall_chart(cluster: Cluster, helm: Helm) -> None:
    """Delete all that a lab's chart and its operator created, if there is any. Raises SchedulerFailed for objects that remain."""
    if not installed_release(cluster):
        return
    with suppress(HelmFailed):
        helm.uninstall(chart.RELEASE, GONE_SECONDS)
    noted = noted_objects(cluster)
    crds = [(CRD, name_of(crd)) for crd in definitions_of_chart(cluster)]
    # Webhooks first, because nothing serves them any more. The annotated namespace last, so that an interruption is found.
    going = [*webhooks_of_chart(cluster), *crds, *noted, ("Node", PROBE)]
    last = ("Namespace", chart.RELEASE.namespace)
    for kind, name in (*(key for key in dict.fromkeys(going) if key != last), last):
        with suppress(NotFound):
            cluster.delete(kind, name)

    def left() -> list[str]:
        return [f"{kind} {name}" for kind, name in dict.fromkeys([*going, last]) if object_exists(cluster, kind, name)]

    if remaining := poll_until(left, lambda remains: not remains, GONE_SECONDS, pause=_POLL_SECONDS):
        raise SchedulerFailed(f"these objects of KAI's chart remain after {GONE_SECONDS:.0f} s: {', '.join(remaining)}")


def _can_start(cluster: Cluster) -> None:
    if lacking := missing_images(cluster):
        raise SchedulerFailed(f"KAI can't be installed: {lacking}")


def _node() -> list[dict[str, Any]]:
    """A fake node for the probe alone. It remains, because its label shows KAI's operator that GPUs are fake."""
    pool = Pool(
        name=PROBE, count=1, cpu="1", memory="1Gi", name_template="{pool}", node_labels={_FAKE_GPUS: "true"},
        taints=({"key": PROBE, "value": "", "effect": "NoSchedule"},),
    )  # fmt: skip
    return list(pool.nodes())


def _probe(cluster: Cluster) -> None:
    """Raises SchedulerFailed if the probe gets no node."""
    queues = probe_queues(*_PROBE_QUEUES)
    for obj in (*queues, probe_pod(PROBE, "default", PROBE, node=PROBE)):
        cluster.create(obj)
    try:
        if not wait_until(lambda: is_bound(cluster, PROBE, "default"), PROBE_SECONDS, pause=_POLL_SECONDS):
            raise SchedulerFailed(
                f"KAI is installed and does not schedule: a pod with minimal requests has been pending for {PROBE_SECONDS:.0f} s; "
                f"{stuck_stage(cluster, PROBE, 'default')}"
            )
    finally:
        with suppress(NotFound):
            cluster.delete("Pod", PROBE, "default", 0)
        for queue in reversed(queues):
            with suppress(NotFound):
                cluster.delete("Queue", name_of(queue))


# --- KAI by its chart as a scheduler under test -----------------------------------------------------------------------


class InstalledKai(SchedulerProcesses):
    """``release``: with its ``v``. ``folder``: see ``find_chart``."""

    def __init__(self, plane: Plane, release: str, folder: str | None = None) -> None:
        self._plane = plane
        self._release = release
        self._folder = folder
        self._prepared = False

    @cached_property
    def _source(self) -> chart.ChartSource:
        return chart.find_chart(self._release, self._folder)

    @cached_property
    def _helm(self) -> Helm:
        return helm_for(self._plane)

    @cached_property
    def _installation(self) -> Installation:
        return Installation(self._helm, self._source)

    def prepare(self, cluster: Cluster) -> None:
        """Prepare the cluster once, and again if another scheduler has uninstalled KAI since. Raises InputError if the cluster has a KAI that no
        lab installed."""
        if not self._prepared or installed_release(cluster) != self._release:
            self._installation.prepare(cluster)
            self._prepared = True

    def start(self, cluster: Cluster, start: StartSettings, tell: Tell = lambda _: None) -> None:
        flags = self._flags(start)
        self.prepare(cluster)
        self._installation.put_in(cluster, flags, lambda: self._load(tell), tell)

    def _flags(self, start: StartSettings) -> Mapping[str, str]:
        """Raises Unsupported."""
        wanted = kai_arguments(start.settings, self._source.dialect)
        usual = kai_arguments(settings_of(None), self._source.dialect)
        if wanted.conf != usual.conf:
            raise Unsupported("actions and plugins other than those in KAI's chart", f"{WHO} installed by its chart")
        pairs = (flag.removeprefix("--").partition("=") for flag in wanted.flags)
        return {name: value for name, _, value in pairs}

    def _load(self, tell: Tell) -> None:
        archives = [archive.path for archive in self._source.archives]
        if archives and isinstance(self._plane, TakesImages):
            tell(f"loading {len(archives)} image archives into the nodes")
            self._plane.load_images(archives)

    def check(self) -> None:
        with _connected(self._plane) as cluster:
            if why := failure_of_pods(cluster):
                raise SchedulerFailed(f"KAI {self._release} does not run: {why}")

    def stop(self) -> None:
        """Uninstall KAI, and install the kinds and priority classes again that later labs need. Raises SchedulerFailed if objects remain."""
        self._taken_out(lambda cluster: install(cluster))

    def end(self) -> None:
        """Uninstall KAI. Raises SchedulerFailed if objects remain."""
        self._taken_out(lambda _: None)

    def _taken_out(self, then: Callable[[Cluster], None]) -> None:
        self._prepared = False
        with _connected(self._plane) as cluster:
            if installed_release(cluster) == self._release:
                uninstall_chart(cluster, self._helm)
                then(cluster)

    @property
    def names(self) -> Sequence[str]:
        return ()

    def version(self) -> str:
        return f"kai {self._release} (by its chart)"

    def ignored_words(self, objects: Sequence[Object]) -> Sequence[str]:
        return tuple(dict.fromkeys(word for obj in objects for word in self._source.dialect.ignored_words(obj)))


def check_chart(release: str, folder: str | None = None) -> None:
    """Check Helm, the chart and its images before anything is started. Raises InputError, ConnectError."""
    Installation(Helm(find_helm()), chart.find_chart(release, folder)).check()


def helm_for(plane: Plane) -> Helm:
    """Helm for a plane's cluster. Raises ConnectError if Helm is not installed."""
    return Helm(find_helm(), Path(plane.kubeconfig).absolute(), getattr(plane, "context", None))


def _connected(plane: Plane) -> AbstractContextManager[Cluster]:
    return connect(plane.kubeconfig, getattr(plane, "context", None), "kai-chart")
