"""Run Kueue beside a control plane: one process over its API server, with its webhooks; kube-scheduler places what Kueue admits.

``configuration`` is Kueue's Configuration (source: API config.kueue.x-k8s.io/v1beta2 of v0.19, and the published
config/components/manager/controller_manager_config.yaml). Fair Sharing is on, because KAI divides capacity that no queue owns by weight.
A resource without quota in a queue does not hold work back.

``await_queues`` waits until Kueue has read the queues. It reads Cohorts, ClusterQueues and Workloads independently, so on a busy machine
it could admit a Workload before it knows the Cohort of its ClusterQueue.

``KueueIdleDetector`` reads the Workloads: all work has one, each is decided, and each decision is carried out. Kueue's metrics would
show the number of open Workloads, but they require a token of the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from kailab.cluster.connect import connect
from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.install import CRD
from kailab.cluster.protocol import Cluster, object_exists
from kailab.errors import KailabError
from kailab.model import labels
from kailab.model.objects import Object, conditions_of, has_condition, is_ended, is_terminating, owner_uids
from kailab.model.private_files import write_text
from kailab.undertest import programs
from kailab.undertest.contract import IdleDetector, Plane, StartSettings, Tell
from kailab.undertest.kueue import messages
from kailab.undertest.kueue.messages import CLUSTER_QUEUE, COHORT, MANAGED, QUEUE_NAME, WORKLOAD
from kailab.undertest.programs import (
    AddonProcesses,
    Program,
    check_programs,
    health_check,
    install_definitions,
    on_free_ports,
)
from kailab.undertest.webhooks import CONFIGURATIONS, WebhookServer, webhook_server

NAMESPACE = "kueue-system"
SERVICE = "kueue-webhook-service"
SECRET = "kueue-webhook-server-cert"
AUTHORITY = "kueue-ca"
SKIPPED = ("kube-system", NAMESPACE, labels.RESERVATION_NAMESPACE)
"""Namespaces whose work Kueue ignores."""
FRAMEWORKS = ("batch/job", "pod", "deployment")

AT_ONCE = {
    "Job.batch": 5,
    "Pod": 5,
    "Workload.kueue.x-k8s.io": 10,
    "LocalQueue.kueue.x-k8s.io": 5,
    "Cohort.kueue.x-k8s.io": 1,
    "ClusterQueue.kueue.x-k8s.io": 5,
    "ResourceFlavor.kueue.x-k8s.io": 1,
}
"""How many objects of a kind it processes at once, as in the published configuration; the default is one."""


def configuration(certificates: Path, webhook: int, health: int, metrics: int) -> Object:
    """``certificates``: the folder of the certificates of its webhook server. The other arguments are ports."""
    selector = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(SKIPPED)}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "metrics": {"bindAddress": f"{LOOPBACK}:{metrics}"},
        "webhook": {"host": LOOPBACK, "port": webhook, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "controller": {"groupKindConcurrency": AT_ONCE},
        # As fast as the API server allows: the usual bounds are for clusters with other users.
        "clientConnection": {"qps": 1000, "burst": 2000},
        # Without it, the metrics need certificates too.
        "internalCertManagement": {"enable": True, "webhookServiceName": SERVICE, "webhookSecretName": SECRET},
        "managedJobsNamespaceSelector": {"matchExpressions": [selector]},
        "integrations": {"frameworks": list(FRAMEWORKS)},
        "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
        "resources": {"quotaCheckStrategy": "IgnoreUndeclared"},
        # It expects to be a pod of the cluster.
        "featureGates": {"VisibilityOnDemand": False},
    }


# --- reading of queues ------------------------------------------------------------------------------------------------

PATIENCE_SECONDS = 20.0
LOOK_SECONDS = 0.1


def await_queues(there: Cluster) -> None:
    """Return when each Cohort and each ClusterQueue has been read, or after ``PATIENCE_SECONDS``."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not _all_read(there) and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)


def _all_read(there: Cluster) -> bool:
    return all(map(_cohort_read, there.list(COHORT))) and all(map(_queue_read, there.list(CLUSTER_QUEUE)))


def _cohort_read(cohort: Object) -> bool:
    """True if Kueue has read the Cohort. A Cohort has no conditions; under Fair Sharing its status has a share once Kueue has computed it
    (``updateCohortStatusIfChanged``, pkg/controller/core/cohort_controller.go)."""
    return "fairSharing" in (cohort.get("status") or {})


def _queue_read(queue: Object) -> bool:
    """True if the condition ``Active`` is about the present generation (``updateCqStatusIfChanged``,
    pkg/controller/core/clusterqueue_controller.go)."""
    wanted = queue["metadata"].get("generation", 0)
    conditions = conditions_of(queue)
    return any(one["type"] == "Active" and one.get("observedGeneration", 0) >= wanted for one in conditions)


# --- idle detection ---------------------------------------------------------------------------------------------------

CHECK_SECONDS = 1.0
SETTLED_SECONDS = 2.5  # it collects changes for a second before it processes them
NOT_READY_SECONDS = 20.0
"""How long a ClusterQueue may be missing or inactive before its work counts as refused: Kueue reads queues one after the other."""
_GATE = "kueue.x-k8s.io/admission"


class KueueIdleDetector:
    """``plane``: that runs Kueue; ``cluster``: a client of it. ``names``: of Kueue's processes."""

    def __init__(self, plane: Plane, cluster: Cluster, names: Sequence[str]) -> None:
        self._plane = plane
        self._cluster = cluster
        self._names = names
        self._since = time.monotonic()
        self._checked = float("-inf")
        self._done = False
        self._not_ready = False

    def changed(self) -> None:
        """Record that something in the cluster has changed."""
        self._since = time.monotonic()

    def is_idle(self) -> bool:
        """Raises SchedulerFailed with the last lines of the log if a process has ended."""
        # This is called far more often than once a second, and the check costs time.
        if (now := time.monotonic()) - self._checked >= CHECK_SECONDS:
            check_programs(self._plane, self._names)
            self._checked = now
            self._not_ready = False
            self._done = not self._under_way()
        return self._done and now - self._since >= (NOT_READY_SECONDS if self._not_ready else SETTLED_SECONDS)

    def _under_way(self) -> bool:
        submitted = {obj["metadata"]["uid"]: obj for obj in self._submitted()}
        decided: set[str] = set()
        for workload in self._cluster.list(WORKLOAD):
            owners = owner_uids(workload)
            decided |= owners
            if has_condition(workload, "Finished"):
                continue
            self._not_ready |= messages.parse_code(_quota(workload)) == messages.MISCONFIGURED
            admitted = has_condition(workload, "Admitted")
            # Admitted work that is still held, and evicted work that still runs.
            mine = [submitted[uid] for uid in owners if uid in submitted]
            if _is_undecided(workload) or any(admitted == _is_held(obj) for obj in mine):
                return True
        return not decided >= submitted.keys()

    def _submitted(self) -> Iterator[Object]:
        """Work that gets a Workload and has not ended."""
        for kind in ("Job", "Pod"):
            for obj in self._cluster.list(kind, labels=QUEUE_NAME):
                ended = is_ended(obj) or has_condition(obj, "Complete", "Failed")
                # Pods of a Job have its label and are admitted with it.
                held = kind == "Pod" and MANAGED not in obj["metadata"].get("labels", {})
                if not ended and not held and not is_terminating(obj):
                    yield obj


def _is_undecided(workload: Object) -> bool:
    """True if Kueue has not decided on the Workload, or the Workload waits until its victims are gone."""
    if workload.get("spec", {}).get("active") is False:
        return False
    told = _conditions(workload, "QuotaReserved")
    return not told or messages.PENDING_PREEMPTION in _quota(workload)


def _quota(workload: Object) -> str:
    """Why the Workload has no quota; empty if it has quota or is not decided."""
    return "".join(one.get("message", "") for one in _conditions(workload, "QuotaReserved") if one["status"] != "True")


def _is_held(obj: Object) -> bool:
    spec = obj["spec"]
    # Pods have no ``suspend``; Kueue holds them with a scheduling gate.
    return bool(spec.get("suspend")) or any(gate["name"] == _GATE for gate in spec.get("schedulingGates") or ())


def _conditions(obj: Object, *types: str) -> list[Mapping[str, Any]]:
    return [one for one in conditions_of(obj) if one["type"] in types]


# --- the process ------------------------------------------------------------------------------------------------------

NAME = "kueue"
_PLACES = "kube-scheduler"
_PREFIX = "kueue-"
_CRDS = "config/components/crd"
_DEFINITIONS = f"{_CRDS}/bases/*.yaml"
_CONVERSIONS = "patches/webhook_in_"
_WEBHOOKS = "config/components/webhook/manifests.yaml"


class KueueProcesses(AddonProcesses):
    name = NAME

    def prepare(self, cluster: Cluster) -> None:
        """Apply its CRDs and its namespace. Also raises MissingComponents."""
        definitions = self._addon.manifests.objects(_DEFINITIONS)
        # Existing CRDs may name the server that converts them.
        missing = [one for one in definitions if not object_exists(cluster, CRD, one["metadata"]["name"])]
        install_definitions(cluster, missing, "Kueue")
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})

    def start(self, cluster: Cluster, start: StartSettings, tell: Tell = lambda _: None) -> None:
        """Returns when its webhooks answer. Also raises MissingComponents."""
        self.prepare(cluster)
        self._plane.start_kube_scheduler()
        try:
            on_free_ports(lambda: self._run(cluster))
        except BaseException:
            self.stop()
            raise

    def _run(self, cluster: Cluster) -> None:
        webhook, health, metrics = free_ports(3)
        folder = Path(self._plane.folder).absolute() / NAME
        server = webhook_server(folder, webhook, f"{SERVICE}.{NAMESPACE}.svc", AUTHORITY)
        config = folder / "configuration.yaml"
        text = yaml.safe_dump(configuration(folder, webhook, health, metrics), sort_keys=False)
        write_text(config, text)
        for obj in self._wired(server):
            cluster.apply(obj)
        ready = health_check(f"http://{LOOPBACK}:{health}/readyz")
        arguments = [f"--config={config}", "--zap-log-level=2"]
        programs.run_programs(self._plane, [Program(NAME, self._addon.programs[NAME], arguments, health, ready)])

    def _wired(self, server: WebhookServer) -> Iterator[Object]:
        """The objects that tell the API server how to call it, and the program with its certificates in place."""
        manifests = self._addon.manifests
        yield server.secret(NAMESPACE, SECRET)
        # Some patches are for kinds that it can't convert; these are the valid ones.
        patches = [one["path"] for one in manifests.objects(f"{_CRDS}/kustomization.yaml")[0]["patches"]]
        converted = {
            one["metadata"]["name"]
            for path in patches
            if path.startswith(_CONVERSIONS)
            for one in manifests.objects(f"{_CRDS}/{path}")
        }
        for definition in manifests.objects(_DEFINITIONS):
            if definition["metadata"]["name"] in converted:
                yield server.converting(definition)
        yield from server.called(manifests.objects(_WEBHOOKS), _PREFIX, SKIPPED)

    @property
    def names(self) -> Sequence[str]:
        return (NAME, _PLACES)

    def stop(self) -> None:
        # Before it ends: while the webhooks are registered, Jobs could not be created.
        with suppress(KailabError), connect(self._plane.kubeconfig, name=NAME) as cluster:
            for kind in CONFIGURATIONS:
                for found in cluster.list(f"{kind}.admissionregistration.k8s.io"):
                    if found["metadata"]["name"].startswith(_PREFIX):
                        cluster.delete(f"{kind}.admissionregistration.k8s.io", found["metadata"]["name"])
        super().stop()

    def rest(self, cluster: Cluster) -> IdleDetector:
        return KueueIdleDetector(self._plane, cluster, self.names)
