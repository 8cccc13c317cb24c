"""Kueue as a scheduler under test: Kueue admits work by quota, and kube-scheduler places the admitted pods.

| KAI queue | Kueue (concepts/cohort, concepts/cluster_queue) |
|---|---|
| a queue | a Cohort; below the Cohort of a leaf there are two ClusterQueues, for preemptible and for non-preemptible work |
| quota of a leaf | nominalQuota of its ClusterQueue for non-preemptible work, which lends all of it and borrows nothing |
| quota of a parent | what exceeds its children's quotas: nominalQuota of its Cohort |
| capacity that no queue owns | nominalQuota of the Cohort at the root: the nodes' resources beyond all quotas |
| limit | borrowingLimit of the Cohort: limit - quota |
| overQuotaWeight | fairSharing.weight of the Cohort |
| an unlimited quota | nominalQuota of all that the nodes have |
| who may reclaim from whom | reclaimWithinCohort Any; withinClusterQueue LowerPriority where work is preemptible |

Kueue has no preemptibility of single workloads. A ClusterQueue that borrows nothing never has to give anything back, so its work is as
safe as KAI's non-preemptible work within quota.

| KAI work | Kueue (tasks/run) |
|---|---|
| queue of a Job, CronJob, pod, Deployment | label queue-name, and a LocalQueue of that name in its namespace |
| priority class | label priority-class, and a WorkloadPriorityClass of that name (concepts/workload_priority_class) |
| a Job whose pods start together | a Job, admitted as a whole |
| a Job of which some pods are enough | annotation job-min-parallelism: partial admission |
| pods that name one group | a pod group: label pod-group-name, annotation pod-group-total-count |
| pods of a Deployment | each pod is admitted by itself (tasks/run/deployment) |

Kueue runs as one process over the API server of a plane, with its webhooks. ``configuration`` is Kueue's Configuration (source: API
config.kueue.x-k8s.io/v1beta2 of v0.19, and the published config/components/manager/controller_manager_config.yaml). Fair Sharing is on,
because KAI divides capacity that no queue owns by weight. A resource without quota in a queue does not hold work back.

``await_queues`` waits until Kueue has read the queues. It reads Cohorts, ClusterQueues and Workloads independently, so on a busy machine
it could admit a Workload before it knows the Cohort of its ClusterQueue.

``KueueIdleDetector`` reads the Workloads: all work has one, each is decided, and each decision is carried out. Kueue's metrics would
show the number of open Workloads, but they require a token of the cluster.

Sources of its names and conditions: Kueue v0.19's API and constants, flavorassigner.go, preemption.go and workload_types.go.
"""

from __future__ import annotations

import copy
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from kailab.cluster.connect import connect
from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.install import CRD
from kailab.cluster.protocol import Cluster, object_exists
from kailab.components import ComponentSet, find_addon
from kailab.engine.snapshot.records import UNLIMITED, Queue
from kailab.errors import KailabError
from kailab.model import labels
from kailab.model.callbacks import Tell
from kailab.model.kinds import kind_key
from kailab.model.manifests import object_name
from kailab.model.objects import (
    Object,
    condition_of,
    has_condition,
    is_ended,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    owner_references,
    owner_uids,
    pods_of_job,
    spec_of,
    status_of,
    uid_of,
)
from kailab.model.private_files import write_text
from kailab.model.validation.advice import pod_templates
from kailab.undertest import contract, programs
from kailab.undertest.translation import RESOURCE_NAMES, RESOURCES, AppliedQueues, TemplateWork, WorkReader, share_in
from kailab.undertest.webhooks import CONFIGURATIONS, WebhookServer, webhook_server

API = "kueue.x-k8s.io/v1beta2"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
GROUP_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
MANAGED = "kueue.x-k8s.io/managed"

WORKLOAD = "Workload.kueue.x-k8s.io"  # kind keys
CLUSTER_QUEUE = "ClusterQueue.kueue.x-k8s.io"
COHORT = "Cohort.kueue.x-k8s.io"

FLAVOR = "fleet"
"""The ResourceFlavor of all nodes."""
ROOT = "kailab-fleet"
"""The Cohort above the top queues, with the capacity of the nodes that no queue owns."""
_PROTECTED = "-non-preemptible"


def queue_for(queue: str, preemptible: bool) -> str:
    """The ClusterQueue, and its LocalQueues, for one kind of work (preemptible or not) of a queue."""
    return queue if preemptible else f"{queue}{_PROTECTED}"


# --- conditions -------------------------------------------------------------------------------------------------------

PENDING_PREEMPTION = "Pending the preemption of"
MISCONFIGURED = "Misconfigured"
"""The code of work whose ClusterQueue or LocalQueue is missing or inactive."""
TERMINATION = "TerminationTarget"
"""The condition of a pod that Kueue stops, with its reason."""

_PREEMPTED = re.compile(
    r"^Preempted to accommodate a workload .* due to (?P<why>.+?)(?:; preemptor path: (?P<path>\S+); preemptee path: \S+)?$"
)
_ACTIONS = {
    "prioritization in the ClusterQueue": "preempt",
    "reclamation within the cohort": "reclaim",
    "Fair Sharing within the cohort": "reclaim",
    "reclamation within the cohort while borrowing": "reclaim",
}
_CODES = (
    # First, because its text follows that of missing quota.
    (PENDING_PREEMPTION, "WaitingForPreemptedWorkloads"),
    ("insufficient quota", "ExceedsMaxQuota"),
    ("insufficient unused quota", "WaitingForQuota"),
    ("doesn't exist", MISCONFIGURED),
    ("is inactive", MISCONFIGURED),
)


def find_evictions(pods: Sequence[Object], there: Cluster) -> dict[str, contract.EvictionReason]:
    """An ``EvictionFinder``."""
    messages = {uid_of(pod): _eviction_message(pod, there) for pod in pods}
    return {uid: contract.EvictionReason(message) for uid, message in messages.items() if message is not None}


def _eviction_message(pod: Object, there: Cluster) -> str | None:
    """The message on a pod that Kueue manages itself, else on the Workload of its Job, whose pods go with it."""
    if (message := _true_message(pod, TERMINATION)) is not None:
        return message
    jobs = {reference["uid"] for reference in owner_references(pod) if reference["kind"] == "Job"}
    if not is_terminating(pod) or not jobs:
        return None
    for workload in there.list(WORKLOAD, namespace_of(pod)):
        if jobs & owner_uids(workload):
            return _true_message(workload, "Evicted")
    return None


def _true_message(obj: Object, type: str) -> str | None:
    """The message, or else the reason, of the condition of that type; None unless its status is ``True``."""
    condition = condition_of(obj, type)
    if condition is None or condition["status"] != "True":
        return None
    return str(condition.get("message") or condition.get("reason", ""))


def _parse_code(message: str) -> str:
    """The code of Kueue's reason why a Workload waits, or ""."""
    return next((code for words, code in _CODES if words in message), "")


# --- queues -----------------------------------------------------------------------------------------------------------


def translate_tree(queues: AppliedQueues, there: Cluster, who: str) -> list[Object]:
    """All objects of the tree, in the order of applying. Raises NotExpressible."""
    queues.refuse_min_runtimes(who)
    queues.refuse_priorities(who)
    queues.refuse_overcommitted(who)
    return list(_TreeTranslation(queues, there, who).objects())


class _TreeTranslation:
    def __init__(self, queues: AppliedQueues, there: Cluster, who: str) -> None:
        self._queues = queues
        self._there = there
        self._who = who
        # Only resources that a queue bounds, because Kueue requires an amount for each resource that it covers.
        self._covered = [name for name in RESOURCES if name == "gpu" or self._bounded(name)]
        self._has = {name: queues.capacity(name) for name in self._covered}

    def objects(self) -> Iterator[Object]:
        # One flavor for all nodes: quota does not depend on nodes, and pods select theirs.
        tolerations = [{"key": labels.FAKE_NODE_TAINT, "operator": "Exists"}]
        yield _object("ResourceFlavor", FLAVOR, {"tolerations": tolerations})
        tops = self._queues.below("")
        free = {name: max(0, self._has[name] - sum(self._quota(top, name) for top in tops)) for name in self._covered}
        yield _object("Cohort", ROOT, {"resourceGroups": self._groups(free, {})})
        for name in self._queues.by_name:
            yield self._cohort(self._queues.by_name[name])
        for leaf in self._queues.leaves:
            owned = {name: self._quota(leaf, name) for name in self._covered}
            nothing = dict.fromkeys(self._covered, 0)
            yield self._cluster_queue(leaf, True, self._groups(nothing, {}))
            yield self._cluster_queue(leaf, False, self._groups(owned, nothing))
        yield from self._left_behind()

    def _left_behind(self) -> Iterator[Object]:
        """ClusterQueues of queues that were leaves when they were applied and have children now: their quota moves to the Cohort and the
        children."""
        there = {name_of(obj) for obj in self._there.list(CLUSTER_QUEUE)}
        nothing = dict.fromkeys(self._covered, 0)
        for name in sorted(self._queues.parents):
            for preemptible in (True, False):
                if queue_for(name, preemptible) in there:
                    queue = self._queues.by_name[name]
                    yield self._cluster_queue(queue, preemptible, self._groups(nothing, nothing))

    def _bounded(self, resource: str) -> bool:
        shares = [share_in(queue, resource) for queue in self._queues.by_name.values()]
        return any(share.limit != UNLIMITED or share.quota not in (0, UNLIMITED) for share in shares)

    def _quota(self, queue: Queue, resource: str) -> int:
        own = share_in(queue, resource)
        if resource == "gpu" and any(amount > 0 and amount % 1000 for amount in (own.quota, own.limit)):
            raise self._lacks("quota of a part of a device", queue)
        quota = self._has[resource] if own.quota == UNLIMITED else own.quota
        return quota if own.limit == UNLIMITED else min(quota, own.limit)

    def _cohort(self, queue: Queue) -> Object:
        if queue.parent and queue.parent not in self._queues.by_name:
            raise self._lacks(f"queue whose work waits until its parent exists ({queue.parent})", queue)
        pool, borrowed = {}, {}
        children = self._queues.below(queue.name)
        for name in self._covered:
            quota = self._quota(queue, name)
            # The ClusterQueue of a leaf has its quota.
            pool[name] = max(0, quota - sum(self._quota(child, name) for child in children)) if children else 0
            if (limit := share_in(queue, name).limit) != UNLIMITED:
                borrowed[name] = max(0, limit - quota)
        spec = {
            "parentName": queue.parent or ROOT,
            "resourceGroups": self._groups(pool, borrowed),
            "fairSharing": {"weight": self._weight(queue)},
        }
        return _object("Cohort", queue.name, spec)

    def _weight(self, queue: Queue) -> str:
        weights = {share_in(queue, name).weight for name in self._covered}
        if len(weights) > 1:
            raise self._lacks("weight for each resource", queue)
        return f"{float(weights.pop()):g}"

    def _cluster_queue(self, queue: Queue, preemptible: bool, groups: list[Object]) -> Object:
        spec = {
            "cohortName": queue.name,
            "namespaceSelector": {},  # work of all namespaces
            "preemption": {
                "reclaimWithinCohort": "Any",
                "withinClusterQueue": "LowerPriority" if preemptible else "Never",
            },
            "resourceGroups": groups,
        }
        return _object("ClusterQueue", queue_for(queue.name, preemptible), spec)

    def _groups(self, nominal: dict[str, int], borrowed: dict[str, int]) -> list[Object]:
        """``borrowed``: the most that may be borrowed of each bounded resource."""
        resources: list[Object] = []
        for name, amount in nominal.items():
            bound = {"borrowingLimit": _amount(name, borrowed[name])} if name in borrowed else {}
            resources.append({"name": RESOURCE_NAMES[name], "nominalQuota": _amount(name, amount), **bound})
        flavors = [{"name": FLAVOR, "resources": resources}]
        return [{"coveredResources": [resource["name"] for resource in resources], "flavors": flavors}]

    def _lacks(self, concept: str, queue: Queue) -> contract.NotExpressible:
        return contract.NotExpressible(self._who, concept, f"Queue/{queue.name}")


def _amount(resource: str, amount: int) -> str:
    """An amount of a record as a quantity, with GPUs as whole devices."""
    if resource == "gpu":
        return str(amount // 1000)
    return f"{amount}m" if resource == "cpu" else str(amount)


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


# --- work -------------------------------------------------------------------------------------------------------------

_KINDS = ("Pod", "Job", "CronJob", "Deployment")


class WorkTranslation:
    """Objects that are applied together. ``who``: the scheduler under test, for errors."""

    def __init__(self, objects: Sequence[Object], there: Cluster, queues: AppliedQueues, who: str) -> None:
        self._reading = WorkReader(objects, there, who)
        self._queues = queues
        self._who = who
        self._works = [self._reading.of(obj) for obj in objects]
        self._members = Counter(work.gang for works in self._works for work in works if work.gang)
        self._brought: set[tuple[str, str]] = set()

    def translate_object(self, number: int, obj: Object) -> list[Object]:
        """The translation of the object with that number, preceded by its LocalQueue and priority class. Raises NotExpressible."""
        works = self._works[number]
        if not works:
            return [obj]
        if kind_key(obj) not in _KINDS:
            raise self._lacks(f"integration here for the kind {obj['kind']}", obj)
        # In Kueue all templates of one object are one workload.
        if len({(work.queue, work.priority_class, work.preemptible) for work in works}) > 1:
            raise self._lacks("workload whose parts have different queues or priorities", obj)
        work = works[0]
        self._queues.check_work(work.queue, self._who, object_name(obj))
        new = copy.deepcopy(obj)
        for _, template in pod_templates(new):
            template["spec"]["schedulerName"] = labels.DEFAULT_SCHEDULER_NAME
            # KAI also reads the owner's label; code that counts pods reads the pod's.
            template.setdefault("metadata", {}).setdefault("labels", {}).setdefault(labels.QUEUE, work.queue)
        self._submit(new, works)
        return [*self._brings(work), new]

    def _submit(self, obj: Object, works: Sequence[TemplateWork]) -> None:
        work = works[0]
        holder = obj["spec"]["jobTemplate"] if obj["kind"] == "CronJob" else obj
        own = holder.setdefault("metadata", {}).setdefault("labels", {})
        own[QUEUE_NAME] = queue_for(work.queue, work.preemptible)
        if work.priority_class:
            own[PRIORITY_CLASS] = work.priority_class
        if obj["kind"] in ("Job", "CronJob"):
            self._gang(holder, work)
        elif obj["kind"] == "Pod" and work.gang:
            if self._members[work.gang] != work.min_member:
                raise self._lacks("group of pods of which some are enough", obj)
            own[GROUP_NAME] = work.gang
            holder["metadata"].setdefault("annotations", {})[GROUP_TOTAL] = str(work.min_member)

    def _gang(self, job: Object, work: TemplateWork) -> None:
        if work.min_member < pods_of_job(job["spec"]):
            job["metadata"].setdefault("annotations", {})[MIN_PARALLELISM] = str(work.min_member)

    def _brings(self, work: TemplateWork) -> Iterator[Object]:
        """The LocalQueue and WorkloadPriorityClass of work that were not yielded before."""
        name = queue_for(work.queue, work.preemptible)
        if (work.namespace, name) not in self._brought:
            self._brought.add((work.namespace, name))
            metadata = {"name": name, "namespace": work.namespace}
            yield {"apiVersion": API, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": name}}
        if work.priority_class and ("", work.priority_class) not in self._brought:
            self._brought.add(("", work.priority_class))
            about = f"The PriorityClass {work.priority_class}."
            metadata = {"name": work.priority_class}
            yield {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": metadata, "value": work.priority,
                   "description": about}  # fmt: skip

    def _lacks(self, concept: str, obj: Object) -> contract.NotExpressible:
        return contract.NotExpressible(self._who, concept, object_name(obj))


# --- its configuration ------------------------------------------------------------------------------------------------

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
POLL_SECONDS = 0.1


def await_queues(there: Cluster) -> None:
    """Return when each Cohort and each ClusterQueue has been read, or after ``PATIENCE_SECONDS``."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if all(map(_is_cohort_read, there.list(COHORT))) and all(map(_is_queue_read, there.list(CLUSTER_QUEUE))):
            return
        time.sleep(POLL_SECONDS)


def _is_cohort_read(cohort: Object) -> bool:
    """True if Kueue has read the Cohort. A Cohort has no conditions; under Fair Sharing its status has a share once Kueue has computed it
    (``updateCohortStatusIfChanged``, pkg/controller/core/cohort_controller.go)."""
    return "fairSharing" in status_of(cohort)


def _is_queue_read(queue: Object) -> bool:
    """True if the condition ``Active`` is about the present generation (``updateCqStatusIfChanged``,
    pkg/controller/core/clusterqueue_controller.go)."""
    active = condition_of(queue, "Active")
    return active is not None and active.get("observedGeneration", 0) >= metadata_of(queue).get("generation", 0)


# --- idle detection ---------------------------------------------------------------------------------------------------

CHECK_SECONDS = 1.0
SETTLED_SECONDS = 2.5  # it collects changes for a second before it processes them
NOT_READY_SECONDS = 20.0
"""How long a ClusterQueue may be missing or inactive before its work counts as refused: Kueue reads queues one after the other."""
_GATE = "kueue.x-k8s.io/admission"


class KueueIdleDetector:
    """``plane``: that runs Kueue; ``cluster``: a client of it. ``names``: of Kueue's processes."""

    def __init__(self, plane: contract.Plane, cluster: Cluster, names: Sequence[str]) -> None:
        self._plane = plane
        self._cluster = cluster
        self._names = names
        self._since = time.monotonic()
        self._checked = float("-inf")
        self._done = False
        self._not_ready = False

    def changed(self) -> None:
        self._since = time.monotonic()

    def is_idle(self) -> bool:
        # This is called far more often than once a second, and the check costs time.
        if (now := time.monotonic()) - self._checked >= CHECK_SECONDS:
            programs.check_programs(self._plane, self._names)
            self._checked = now
            self._not_ready = False
            self._done = not self._under_way()
        return self._done and now - self._since >= (NOT_READY_SECONDS if self._not_ready else SETTLED_SECONDS)

    def _under_way(self) -> bool:
        submitted = {uid_of(obj): obj for obj in self._submitted()}
        decided: set[str] = set()
        for workload in self._cluster.list(WORKLOAD):
            owners = owner_uids(workload)
            decided |= owners
            if has_condition(workload, "Finished"):
                continue
            self._not_ready |= _parse_code(_quota(workload)) == MISCONFIGURED
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
                held = kind == "Pod" and MANAGED not in labels_of(obj)
                if not ended and not held and not is_terminating(obj):
                    yield obj


def _is_undecided(workload: Object) -> bool:
    """True if Kueue has not decided on the Workload, or the Workload waits until its victims are gone."""
    if spec_of(workload).get("active") is False:
        return False
    return condition_of(workload, "QuotaReserved") is None or PENDING_PREEMPTION in _quota(workload)


def _quota(workload: Object) -> str:
    """Why the Workload has no quota; empty if it has quota or is not decided."""
    condition = condition_of(workload, "QuotaReserved")
    return "" if condition is None or condition["status"] == "True" else condition.get("message", "")


def _is_held(obj: Object) -> bool:
    spec = obj["spec"]
    # Pods have no ``suspend``; Kueue holds them with a scheduling gate.
    return bool(spec.get("suspend")) or any(gate["name"] == _GATE for gate in spec.get("schedulingGates") or ())


# --- the process ------------------------------------------------------------------------------------------------------

NAME = "kueue"
_PLACES = "kube-scheduler"
_PREFIX = "kueue-"
_CRDS = "config/components/crd"
_DEFINITIONS = f"{_CRDS}/bases/*.yaml"
_CONVERSIONS = "patches/webhook_in_"
_WEBHOOKS = "config/components/webhook/manifests.yaml"


class KueueProcesses(programs.AddonProcesses):
    name = NAME

    def prepare(self, cluster: Cluster) -> None:
        """Apply its CRDs and its namespace. Also raises MissingComponents."""
        definitions = self._addon.manifests.objects(_DEFINITIONS)
        # Existing CRDs may name the server that converts them.
        missing = [definition for definition in definitions if not object_exists(cluster, CRD, name_of(definition))]
        programs.install_definitions(cluster, missing, "Kueue")
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})

    def start(self, cluster: Cluster, start: contract.StartSettings, tell: Tell = lambda _: None) -> None:
        """Returns when its webhooks answer. Also raises MissingComponents."""
        self.prepare(cluster)
        self._plane.start_kube_scheduler()
        try:
            programs.on_free_ports(lambda: self._run(cluster))
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
        ready = programs.health_check(f"http://{LOOPBACK}:{health}/readyz")
        arguments = [f"--config={config}", "--zap-log-level=2"]
        programs.run_programs(
            self._plane, [programs.Program(NAME, self._addon.programs[NAME], arguments, health, ready)]
        )

    def _wired(self, server: WebhookServer) -> Iterator[Object]:
        """The objects that tell the API server how to call it, and the program with its certificates in place."""
        manifests = self._addon.manifests
        yield server.secret(NAMESPACE, SECRET)
        # Some patches are for kinds that it can't convert; these are the valid ones.
        patches = [patch["path"] for patch in manifests.objects(f"{_CRDS}/kustomization.yaml")[0]["patches"]]
        converted = {
            name_of(patched)
            for path in patches
            if path.startswith(_CONVERSIONS)
            for patched in manifests.objects(f"{_CRDS}/{path}")
        }
        for definition in manifests.objects(_DEFINITIONS):
            if name_of(definition) in converted:
                yield server.converting(definition)
        yield from server.called(manifests.objects(_WEBHOOKS), _PREFIX, SKIPPED)

    @property
    def names(self) -> Sequence[str]:
        return (NAME, _PLACES)

    def stop(self) -> None:
        # Before it ends: while the webhooks are registered, Jobs could not be created.
        with suppress(KailabError), connect(self._plane.kubeconfig, name=NAME) as cluster:
            for kind in CONFIGURATIONS:
                for configuration in cluster.list(f"{kind}.admissionregistration.k8s.io"):
                    if name_of(configuration).startswith(_PREFIX):
                        cluster.delete(f"{kind}.admissionregistration.k8s.io", name_of(configuration))
        super().stop()

    def idle_detector(self, cluster: Cluster) -> contract.IdleDetector:
        return KueueIdleDetector(self._plane, cluster, self.names)


# --- Kueue as a scheduler under test ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kueue(contract.SchedulerUnderTest):
    """Admits work by quota; kube-scheduler places the admitted pods. Waiting Jobs have no pods, waiting pods are gated."""

    title = "Kueue"
    scheduler_name = labels.DEFAULT_SCHEDULER_NAME
    waits_without_pods = True
    # For a hundred pods it creates and admits a hundred Workloads one by one, long before it changes a pod.
    writes = (WORKLOAD,)
    # Before it knows the Cohort, work can't borrow, and a Job with partial admission would be admitted too small.
    prerequisite_kinds = (COHORT, CLUSTER_QUEUE)

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        queues = AppliedQueues(objects, there)
        work = WorkTranslation(objects, there, queues, self.title)
        last = max((number for number, obj in enumerate(objects) if kind_key(obj) == "Queue"), default=-1)
        result: list[Sequence[Object]] = []
        for number, obj in enumerate(objects):
            # The translation of a queue depends on its parents and children, so the whole tree is translated again.
            tree = translate_tree(queues, there, self.title) if number == last else []
            result.append([*work.translate_object(number, obj), *tree])
        return result

    def await_prerequisites(self, there: Cluster) -> None:
        await_queues(there)

    def beside(self, plane: contract.Plane, programs: ComponentSet | None = None) -> KueueProcesses:
        return KueueProcesses(plane)

    def check_options(self) -> None:
        """Raises MissingComponents if it is not installed."""
        find_addon(NAME)

    def stopped(self, there: Cluster) -> contract.EvictionFinder:
        return partial(find_evictions, there=there)

    def eviction(self, message: str) -> contract.EvictionCondition | None:
        match = _PREEMPTED.match(message)
        if match is None:
            return None
        # The path ends with the ClusterQueue; its Cohort, before it, has the queue's name.
        path = (match["path"] or "").strip("/").split("/")
        return contract.EvictionCondition(_ACTIONS.get(match["why"], "preempt"), "", path[-2] if len(path) > 1 else "")

    def code(self, message: str) -> str:
        return _parse_code(message)
