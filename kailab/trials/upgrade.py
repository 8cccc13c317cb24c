"""Upgrade trials: fill a lab under one scheduler; while work runs, replace it with the next; check; roll back; check again.

``SchedulingProbe`` measures how long nothing is scheduled, ``UpgradeClusterState`` what is lost. ``ActingPlane`` runs processes as a service
account, as pods do: each with its own token, which is invalid once the account is recreated. A kubelet gives a new token to a container that
starts, and to a running one only when the old token is about to expire. So processes that run while the account is recreated are left with a
token that the API server refuses.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import msgspec
import yaml

from kailab.cluster.controlplane.supervision import ProcessStatus
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.polling import wait_until
from kailab.cluster.protocol import Cluster, Object
from kailab.errors import AlreadyExists, ConnectError, InputError, NotFound
from kailab.fleet.fleet import Fleet
from kailab.lab.venues.plane import PlaneVenue, open_plane
from kailab.model import labels, manifests
from kailab.model.callbacks import Tell
from kailab.model.objects import (
    annotations_of,
    full_name,
    is_ended,
    is_owned,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    uid_of,
)
from kailab.model.private_files import make_folder, replace_file
from kailab.scheduler.settings.config_file import settings_of
from kailab.undertest import contract
from kailab.undertest.kai.probe import is_bound, probe_pod, probe_queues, stuck_stage
from kailab.undertest.selection import choose_scheduler

# --- the result -------------------------------------------------------------------------------------------------------


class UpgradeCheck(msgspec.Struct, frozen=True, kw_only=True):
    """``failure``: the state that differs from the expected one; empty if the check passed."""

    name: str
    failure: str = msgspec.field(default="", name="told")


class SchedulerChange(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler replaced by the next, or its account renewed.

    ``stopped``: seconds until the last old process had ended; ``worked``: until all new ones reported ready;
    ``scheduled``: until a pod that waited from the beginning had a node, None if that took too long. ``lost``: pods and
    objects of KAI, by uid, that are gone; ``altered``: changed spec fields. ``deaf``: empty, or the stage at which
    scheduling stopped although all processes ran. ``ended``: processes that ended by themselves, with reasons. ``passed_over``:
    fields of the load that the new scheduler ignores.
    """

    name: str
    version: str
    stopped: float = 0.0
    worked: float | None = None
    scheduled: float | None = None
    lost: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    deaf: str = ""
    ended: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    checks: tuple[UpgradeCheck, ...] = ()

    @property
    def sound(self) -> bool:
        """True if it schedules, nothing is lost, no process ended by itself and all checks passed."""
        return (
            self.scheduled is not None
            and not (self.lost or self.ended)
            and not any(check.failure for check in self.checks)
        )


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """``filled``: pods that ran at the start. ``promise``: seconds within which a rollback must schedule again, or
    None."""

    before: str
    after: str
    filled: int
    changes: tuple[SchedulerChange, ...]
    promise: float | None = None

    @property
    def sound(self) -> bool:
        return all(change.sound for change in self.changes) and self.kept is not False

    @property
    def kept(self) -> bool | None:
        """True if the rollback kept the promise; None without a promise or a rollback."""
        last = self.changes[-1] if self.changes else None
        if self.promise is None or last is None or last.name != "rollback":
            return None
        return last.scheduled is not None and last.scheduled <= self.promise


def upgrade_lines(upgrade: Upgrade) -> Iterator[str]:
    """Format the result for people."""
    yield f"from {upgrade.before}"
    yield f"to   {upgrade.after}"
    yield f"{upgrade.filled} pods ran when it began"
    for change in upgrade.changes:
        yield ""
        yield f"{change.name}: {change.version}"
        yield from (f"  {line}" for line in _change_lines(change))
    if upgrade.kept is not None:
        yield ""
        yield f"a rollback within {upgrade.promise:g} s: {'kept' if upgrade.kept else 'not kept'}"


def _change_lines(change: SchedulerChange) -> Iterator[str]:
    if change.scheduled is None:
        yield "schedules again: not within the time limit"
    else:
        yield f"schedules again: after {change.scheduled:.1f} s"
    if change.worked is not None:
        yield f"  the old scheduler had ended after {change.stopped:.1f} s, the new one was ready after {change.worked:.1f} s"
    if change.deaf:
        yield f"does not schedule although its processes run: {change.deaf}"
    yield from (f"ended by itself: {item}" for item in change.ended)
    yield f"lost: {_count_and_names(change.lost)}"
    if change.altered:
        yield f"altered: {', '.join(change.altered)}"
    if change.passed_over:
        yield f"ignored without a message: {', '.join(change.passed_over)}"
    yield from (f"{item.name}: {item.failure or 'passed'}" for item in change.checks)


def _count_and_names(names: tuple[str, ...]) -> str:
    return "nothing" if not names else f"{len(names)}: {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"


# --- the state of the cluster -----------------------------------------------------------------------------------------

_HERE = "default"
QUEUES = ("upgrade-probes", "upgrade-probe")
"""The parent queue and the probe's queue."""


class SchedulingProbe:
    """A pod that needs almost nothing, watched from its creation in a thread with its own connection. ``seconds``: how
    long to watch."""

    def __init__(self, cluster: Cluster, connection: Connection, name: str, seconds: float) -> None:
        for queue in probe_queues(*QUEUES):
            with suppress(AlreadyExists):
                cluster.create(queue)
        cluster.create(probe_pod(name, _HERE, QUEUES[1]))
        self.begun = time.monotonic()
        self._name = name
        self._cluster = cluster
        self._seconds = seconds
        self._over = False
        self._pool = ThreadPoolExecutor(1)
        self._seen: Future[float | None] = self._pool.submit(self._watch_pod, connection)

    def _watch_pod(self, connection: Connection) -> float | None:
        own = KubernetesCluster(connection, name="probe")
        try:
            bound = wait_until(lambda: self._over or is_bound(own, self._name, _HERE), self._seconds)
            return time.monotonic() if bound and not self._over else None
        finally:
            own.close()

    @property
    def bound(self) -> bool:
        """True if it has been bound by now."""
        return self._seen.done() and self._seen.result() is not None

    def bound_at(self) -> float | None:
        """Wait until it is bound and return the time on this process's monotonic clock; None if that does not happen in
        time."""
        return self._seen.result()

    def stuck(self) -> str:
        """The stage at which the pod waits, read from the objects that KAI's programs exchange; empty if bound."""
        return stuck_stage(self._cluster, self._name, _HERE)

    def __enter__(self) -> SchedulingProbe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._pool.shutdown()
        with suppress(NotFound):
            self._cluster.delete("Pod", self._name, _HERE, 0)


def belongs_to_probe(obj: Object) -> bool:
    """True for the pod, PodGroup or queue of a probe."""
    own = labels_of(obj).get(labels.QUEUE), spec_of(obj).get("queue")
    return name_of(obj) in QUEUES or QUEUES[1] in own


_PAUSE_SECONDS = 0.5


class UpgradeClusterState(NamedTuple):
    """The state by uid.

    ``pods``: ``namespace/name`` of pods that have a node and have not ended. ``specs``: specs of Queues and PodGroups;
    ``names``: their kind and name. PodGroups of deleted pods and the trial's own probes are left out.
    """

    pods: dict[str, str]
    specs: dict[str, dict[str, Any]]
    names: dict[str, str]

    @classmethod
    def of(cls, cluster: Cluster) -> UpgradeClusterState:
        pods = _pods(cluster)
        grouped = {_group(obj) for obj in pods if not _is_over(obj)}
        podgroups = [obj for obj in cluster.list("PodGroup") if not is_owned(obj) or full_name(obj) in grouped]
        objects = [obj for obj in (*cluster.list("Queue"), *podgroups) if not belongs_to_probe(obj)]
        return cls(
            {uid_of(obj): full_name(obj) for obj in pods if obj["spec"].get("nodeName") and not _is_over(obj)},
            {uid_of(obj): dict(obj.get("spec") or {}) for obj in objects},
            {uid_of(obj): f"{obj['kind']} {full_name(obj)}" for obj in objects},
        )

    def lost(self, after: UpgradeClusterState) -> tuple[str, ...]:
        """Pods and objects of KAI that are gone, and pods that lost their node. An object recreated under the same name
        counts as lost."""
        pods = (f"Pod {name}" for uid, name in self.pods.items() if uid not in after.pods)
        return (*pods, *(name for uid, name in self.names.items() if uid not in after.names))

    def altered(self, after: UpgradeClusterState) -> tuple[str, ...]:
        """Spec fields that have changed, each with the number of objects."""
        counts: Counter[str] = Counter()
        for uid, spec in self.specs.items():
            if uid not in after.specs:
                continue
            now = after.specs[uid]
            for field in sorted({*spec, *now}):
                if spec.get(field) != now.get(field):
                    change = "gone" if field not in now else "new" if field not in spec else "changed"
                    counts[f"{self.names[uid].split()[0]} spec.{field} {change}"] += 1
        return tuple(f"{change} ({count})" for change, count in sorted(counts.items()))


def wait_until_steady(
    cluster: Cluster, idle_detector: contract.IdleDetector | None, quiet: float, patience: float
) -> bool:
    """Wait until nothing has changed for ``quiet`` seconds and the scheduler has seen everything since.

    Returns False after ``patience`` seconds. Raises SchedulerFailed if the scheduler has ended.
    """
    begun = since = time.monotonic()
    seen: object = None
    while time.monotonic() - begun < patience:
        now = sorted((uid_of(pod), pod["spec"].get("nodeName", "")) for pod in _pods(cluster))
        if now != seen:
            seen, since = now, time.monotonic()
            if idle_detector is not None:
                idle_detector.changed()
        elif time.monotonic() - since >= quiet and (idle_detector is None or idle_detector.is_idle()):
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def _pods(cluster: Cluster) -> list[Object]:
    return [pod for pod in cluster.list("Pod") if not belongs_to_probe(pod)]


def _is_over(pod: Object) -> bool:
    return is_terminating(pod) or is_ended(pod)


def _group(pod: Object) -> str:
    return f"{namespace_of(pod)}/{annotations_of(pod).get(labels.POD_GROUP, '')}"


# --- processes that act as a service account --------------------------------------------------------------------------

NAMESPACE, ACCOUNT = "kai-scheduler", "scheduler"
TOKEN_SECONDS = 3607  # as the kubelet asks for it


class ActingPlane:
    """A control plane that starts some processes as the service account ``kai-scheduler/scheduler``, which has all
    rights."""

    def __init__(self, plane: contract.Plane, cluster: KubernetesCluster) -> None:
        self._plane = plane
        self._cluster = cluster
        self.folder = plane.folder
        self._tokens = Path(plane.folder) / "accounts"
        make_folder(self._tokens)
        self._acting: set[str] = set()

    def act(self, name: str) -> None:
        """Run the process of this name as the account from its next start on."""
        self._acting.add(name)

    @property
    def own(self) -> Collection[str]:
        return self._plane.own

    @property
    def kubeconfig(self) -> Path:
        return self._plane.kubeconfig

    def processes(self) -> list[ProcessStatus]:
        return self._plane.processes()

    def log(self, name: str) -> Path:
        return self._plane.log(name)

    def stop(self, name: str) -> None:
        self._plane.stop(name)

    def start_kube_scheduler(self) -> None:
        self._plane.start_kube_scheduler()

    def spawn(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None, port: int = 0
    ) -> ProcessStatus:
        """Start a process; one that runs as the account gets a new token and a kubeconfig with it."""
        if name not in self._acting:
            return self._plane.spawn(name, argv, env, port)
        self._provide()
        token = _token(self._cluster)
        replace_file(self._token_file(name), token.encode())
        config = yaml.safe_load(self._plane.kubeconfig.read_text(encoding="utf-8"))
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        own_kubeconfig = self._tokens / f"{name}.kubeconfig"
        replace_file(own_kubeconfig, yaml.safe_dump(config).encode())
        kubeconfig = str(self._plane.kubeconfig)
        # Some processes get the kubeconfig as an argument.
        arguments = [str(own_kubeconfig) if str(argument) == kubeconfig else argument for argument in argv]
        return self._plane.spawn(name, arguments, {**(env or {}), "KUBECONFIG": str(own_kubeconfig)}, port)

    def renew(self) -> None:
        """Delete and recreate the account, as its installer does. The new account has the same name and a new uid."""
        with suppress(NotFound):
            self._cluster.delete("ServiceAccount", ACCOUNT, NAMESPACE)
        self._provide()

    def accepted(self, name: str) -> bool:
        """True if the API server accepts the token with which this process was started. The server caches answers for
        some seconds."""
        token = self._token_file(name).read_text(encoding="utf-8")
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        reviewed = _post(self._cluster, "/apis/authentication.k8s.io/v1/tokenreviews", review)
        return bool(reviewed["status"].get("authenticated"))

    def _token_file(self, name: str) -> Path:
        return self._tokens / f"{name}.token"

    def _provide(self) -> None:
        account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
        rights = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        for obj in (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "kailab-trial-scheduler"},
                "roleRef": rights,
                "subjects": [account],
            },
        ):
            with suppress(AlreadyExists):
                self._cluster.create(obj)


def _token(cluster: KubernetesCluster) -> str:
    """Request a token. Raises ConnectError."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    return str(_post(cluster, path, request)["status"]["token"])


def _post(cluster: KubernetesCluster, path: str, obj: Object) -> Object:
    answer = cluster.transport.call(cluster.transport.request("POST", path, json.dumps(obj).encode()))
    if answer.code >= 300:
        raise ConnectError(f"POST {path}: the API server answered {answer.code}: {answer.body[:300]!r}")
    return json.loads(answer.body)


# --- the trial --------------------------------------------------------------------------------------------------------

PATIENCE_SECONDS = 300.0  # much more than it takes on a quiet machine
QUIET_SECONDS = 3.0
_FOLDER = Path(__file__).with_name("upgrade_load")
_LOAD = ("queues", "filler")


class UpgradePlan(NamedTuple):
    """``load``: objects that fill the lab; None: the trial's own load, with which reclaim and a gang are checked.
    ``renew``: renew the scheduler's account before the upgrade without a restart. ``promise``: seconds within which a
    rollback must schedule again."""

    before: contract.SchedulerUnderTest
    after: contract.SchedulerUnderTest
    fleet: Fleet
    load: Sequence[Object] | None = None
    renew: bool = False
    patience: float = PATIENCE_SECONDS
    promise: float | None = None

    def check(self) -> None:
        """Raise InputError for a plan that cannot be carried out, before anything is started."""
        for scheduler in (self.before, self.after):
            if not scheduler.understands_kai:
                raise InputError(
                    f"an upgrade trial needs schedulers that read KAI's objects; {scheduler.name} does not"
                )
            scheduler.check_options()


def run_upgrade_trial(plan: UpgradePlan, tell: Tell = lambda _: None) -> Upgrade:
    """Run the trial on its own control plane, which is taken down at the end, even if this process is killed.

    Raises InputError, and SchedulerFailed if the first scheduler does not start.
    """
    plan.check()
    venue = open_plane("controlplane", scheduler=plan.before, get=True, tell=tell)
    try:
        return _UpgradeRun(plan, venue, tell).run()
    finally:
        venue.close()


class _UpgradeRun:
    def __init__(self, plan: UpgradePlan, venue: PlaneVenue, tell: Tell) -> None:
        self._plan = plan
        self._venue = venue
        self._cluster = venue.cluster
        self._tell = tell
        self._acting = ActingPlane(venue.plane, venue.cluster) if plan.renew else None
        self._connection = Connection.from_kubeconfig(venue.kubeconfig)

    def run(self) -> Upgrade:
        plan = self._plan
        before, after = self._beside(plan.before), self._beside(plan.after)
        before.prepare(self._cluster)
        # Create nodes and the other objects of a lab; this scheduler does not run in a process of its own.
        self._venue.furnish(plan.fleet, choose_scheduler("kailab"), settings_of(None))
        self._tell(f"starting {plan.before.name}")
        self._start(before, plan.before)
        self._tell("filling the lab")
        load = self._load_objects(*_LOAD) if plan.load is None else plan.load
        self._apply(load)
        self._wait_until_steady(before)
        filled = len(UpgradeClusterState.of(self._cluster).pods)
        first_version = before.version()
        changes = [self._renew_account(before, plan.before)] if plan.renew else []
        changes.append(self._replace_scheduler("upgrade", before, after, plan.after, load))
        changes.append(self._replace_scheduler("rollback", after, before, plan.before, load))
        return Upgrade(
            before=first_version, after=changes[-2].version, filled=filled, changes=tuple(changes), promise=plan.promise
        )

    # --- changes ---------------------------------------------------------------------------------------------------

    def _replace_scheduler(
        self,
        name: str,
        old: contract.SchedulerProcesses,
        new: contract.SchedulerProcesses,
        chosen: contract.SchedulerUnderTest,
        load: Sequence[Object],
    ) -> SchedulerChange:
        """Replace one scheduler by the next: first the definitions while the old one runs, as KAI's chart does, then
        the programs."""
        self._tell(f"{name}: to {chosen.name}")
        state_before = UpgradeClusterState.of(self._cluster)
        new.prepare(self._cluster)
        begun = time.monotonic()
        old.stop()
        stopped = time.monotonic()
        with self._probe(name) as probe:
            worked = bound = None
            ended: tuple[str, ...] = ()
            try:
                self._start(new, chosen)
                worked = time.monotonic() - begun
                bound = probe.bound_at()
                ended = _ended(new)
            except contract.SchedulerFailed as error:
                ended = (str(error),)
            deaf = probe.stuck() if bound is None and not ended else ""
        self._wait_until_steady(new)
        state_after = UpgradeClusterState.of(self._cluster)
        return SchedulerChange(
            name=name,
            version=new.version(),
            stopped=stopped - begun,
            worked=worked,
            scheduled=None if bound is None else bound - begun,
            lost=state_before.lost(state_after),
            altered=state_before.altered(state_after),
            deaf=deaf,
            ended=ended,
            passed_over=tuple(new.ignored_words(load)),
            checks=self._checks(new) if self._plan.load is None and bound is not None else (),
        )

    def _renew_account(
        self, beside: contract.SchedulerProcesses, scheduler: contract.SchedulerUnderTest
    ) -> SchedulerChange:
        """Renew the scheduler's service account without a restart.

        KAI's chart did this on upgrades that did not change the scheduler's Deployment (KAI issue 1536).
        """
        acting = self._acting
        assert acting is not None
        self._tell("the scheduler's account is made anew")
        state_before = UpgradeClusterState.of(self._cluster)
        begun = time.monotonic()
        acting.renew()
        if not wait_until(lambda: not acting.accepted(beside.names[0]), self._plan.patience):
            raise contract.SchedulerFailed("the API server still accepts the token of a deleted account")
        with self._probe("renewed") as probe:
            wait_until(lambda: probe.bound or bool(_ended(beside)), self._plan.patience)
            ended = _ended(beside)
            deaf = "" if probe.bound or ended else probe.stuck()
            if ended:
                # As the kubelet does: restart the container that ended, with a new token.
                beside.stop()
                self._start(beside, scheduler)
            bound = probe.bound_at() if probe.bound or ended else None
        state_after = UpgradeClusterState.of(self._cluster)
        return SchedulerChange(
            name="account made anew",
            version=beside.version(),
            scheduled=None if bound is None else bound - begun,
            lost=state_before.lost(state_after),
            altered=state_before.altered(state_after),
            deaf=deaf,
            ended=ended,
        )

    # --- checks ----------------------------------------------------------------------------------------------------

    def _checks(self, beside: contract.SchedulerProcesses) -> tuple[UpgradeCheck, ...]:
        self._tell("reclaim, a gang, and back")
        self._apply(self._load_objects("owner"))
        reclaim = self._check(beside, "reclaim", {"owner": 12, "filler": 20})
        self._apply(self._load_objects("squad"))
        gang = self._check(beside, "gang", {"squad": 4, "owner": 12, "filler": 16})
        for obj in self._load_objects("owner", "squad"):
            with suppress(NotFound):
                self._cluster.delete(obj["kind"], name_of(obj), _HERE)
        return reclaim, gang, self._check(beside, "borrow", {"filler": 24})

    def _check(self, beside: contract.SchedulerProcesses, name: str, wanted: dict[str, int]) -> UpgradeCheck:
        def pods_by_app() -> dict[str, int]:
            pods = UpgradeClusterState.of(self._cluster).pods.values()
            return {app: sum(pod.startswith(f"{_HERE}/{app}-") for pod in pods) for app in wanted}

        wait_until(lambda: pods_by_app() == wanted, self._plan.patience)
        # Wait again, because the lab may only pass through this state.
        self._wait_until_steady(beside)
        counts = pods_by_app()
        differences = ", ".join(
            f"{app} has {counts[app]} pods, not {count}" for app, count in wanted.items() if counts[app] != count
        )
        return UpgradeCheck(name=name, failure=differences)

    # --- steps -----------------------------------------------------------------------------------------------------

    def _beside(self, scheduler: contract.SchedulerUnderTest) -> contract.SchedulerProcesses:
        processes = scheduler.beside(self._acting or self._venue.plane)
        if processes is None:
            raise InputError(f"{scheduler.name} cannot run as a process beside a control plane")
        if self._acting is not None:
            self._acting.act(processes.names[0])
        return processes

    def _start(self, beside: contract.SchedulerProcesses, scheduler: contract.SchedulerUnderTest) -> None:
        beside.start(self._cluster, contract.StartSettings(settings_of(scheduler.option("config"))), self._tell)

    def _probe(self, name: str) -> SchedulingProbe:
        return SchedulingProbe(self._cluster, self._connection, f"probe-{name}", self._plan.patience)

    def _wait_until_steady(self, beside: contract.SchedulerProcesses) -> None:
        # The change itself reports processes that have ended.
        with suppress(contract.SchedulerFailed):
            wait_until_steady(self._cluster, beside.idle_detector(self._cluster), QUIET_SECONDS, self._plan.patience)

    def _apply(self, objects: Sequence[Object]) -> None:
        for obj in objects:
            self._cluster.apply(obj)

    def _load_objects(self, *names: str) -> list[Object]:
        return manifests.load([_FOLDER / f"{name}.yaml" for name in names]).objects


def _ended(beside: contract.SchedulerProcesses) -> tuple[str, ...]:
    try:
        beside.check()
    except contract.SchedulerFailed as error:
        return (str(error),)
    return ()
