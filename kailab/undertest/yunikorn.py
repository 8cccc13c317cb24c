"""Apache YuniKorn as a scheduler under test, as a process beside a plane.

The queues are one ConfigMap, rewritten at each change: quota is ``guaranteed``, limit is ``max``, and priority is an offset. As in KAI,
priorities of work count only within their queue (``priority.policy: fence``), and owned capacity comes back at once
(``preemption.delay`` has YuniKorn's smallest value).

Work is an application in a leaf queue, named by annotations of its pods. A gang is an application with one task group: placeholders
reserve its room until all of it fits. Non-preemptible work is annotated as such. YuniKorn can't express that it must stay within quota.

Its REST server listens on port 9080 of all addresses, which is fixed in its code, so a machine can run one. The REST server shows
YuniKorn's log of events, from which ``PreemptionLog`` reads evictions: it sends them to the cluster as Events only every two seconds, and
drops those of pods that are gone by then. Without a process on this machine nothing is known.

Source of its names: YuniKorn's documents (partition and queue configuration, gang scheduling, priorities, preemption) and
pkg/common/constants of yunikorn-k8shim.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from kailab.cluster.base_objects import namespace_object
from kailab.cluster.controlplane.ports import LOOPBACK, is_free_everywhere
from kailab.cluster.protocol import Cluster
from kailab.components import ComponentSet, find_addon
from kailab.engine.snapshot.records import UNLIMITED, Queue
from kailab.model.callbacks import Tell
from kailab.model.kinds import kind_key
from kailab.model.manifests import object_name
from kailab.model.objects import Object, annotations_of, is_terminating, metadata_of, name_of, uid_of
from kailab.scheduler.reading.queues import DEFAULT_QUEUE_PRIORITY
from kailab.scheduler.reading.requests import pod_amounts
from kailab.undertest import contract, programs, translation

NAME = "yunikorn"
SCHEDULER_NAME = "yunikorn"
NAMESPACE = "yunikorn"
PORT = 9080
"""The port of its REST server, fixed in its code."""

CONFIG_MAP = "yunikorn-configs"
CONFIG_KEY = "queues.yaml"
ROOT = "root"

APP_ID = "yunikorn.apache.org/app-id"
QUEUE = "yunikorn.apache.org/queue"
ALLOW_PREEMPTION = "yunikorn.apache.org/allow-preemption"
TASK_GROUP = "yunikorn.apache.org/task-group-name"
TASK_GROUPS = "yunikorn.apache.org/task-groups"
GANG_POLICY = "yunikorn.apache.org/schedulingPolicyParameters"


# --- queues -----------------------------------------------------------------------------------------------------------

_NAMES = {**translation.RESOURCE_NAMES, "cpu": "vcore"}
_QUEUE_NAME = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")
_PREEMPTION_DELAY = "1s"
_NO_BOUND = {"pods": "1000000"}
"""YuniKorn ignores a ``max`` with only zeros (``setResources`` in pkg/scheduler/objects/queue.go of yunikorn-core 1.8.0), so the zeros get
another resource beside them, of which every pod has one."""

Amounts = dict[str, int]


def config_map(queues: translation.AppliedQueues) -> Object:
    """The ConfigMap with its whole configuration."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
        "data": {CONFIG_KEY: yaml.safe_dump(configuration(queues), sort_keys=False)},
    }


def configuration(queues: translation.AppliedQueues) -> dict[str, Any]:
    """The content of ``queues.yaml``. Raises NotExpressible."""
    tops = [_queue(queues, queue, {}) for queue in queues.below("")]
    root: dict[str, Any] = {"name": ROOT, "submitacl": "*"}
    if tops:
        root["queues"] = tops
    # A pod may be seen before the configuration with its queue. The queue is then created, and gets its amounts when the configuration is
    # read.
    placement = [{"name": "provided", "create": True}]
    return {"partitions": [{"name": "default", "placementrules": placement, "queues": [root]}]}


def queue_path(queues: translation.AppliedQueues, name: str) -> str:
    """The path of a queue, as work names it."""
    return ".".join((ROOT, *queues.line(name)))


def _queue(queues: translation.AppliedQueues, queue: Queue, above: Amounts) -> dict[str, Any]:
    """``above``: the limits of all ancestors."""
    if not _QUEUE_NAME.fullmatch(queue.name):
        raise contract.NotExpressible(NAME, "queue of such a name", f"Queue/{queue.name}")
    most = _max_amounts(queue, above)
    least = _guaranteed_amounts(queues, queue, most)
    children = [_queue(queues, child, most) for child in queues.below(queue.name)]
    result: dict[str, Any] = {"name": queue.name}
    if children:
        result["parent"] = True
    resources = {
        "guaranteed": _amount_texts(least),
        "max": _amount_texts(most) | (_NO_BOUND if most and not any(most.values()) else {}),
    }
    result["resources"] = {name: amounts for name, amounts in resources.items() if amounts}
    result["properties"] = {
        "priority.policy": "fence",
        "priority.offset": str(queue.priority - DEFAULT_QUEUE_PRIORITY),
        "preemption.delay": _PREEMPTION_DELAY,
    }
    if children:
        result["queues"] = children
    return result


def _max_amounts(queue: Queue, above: Amounts) -> Amounts:
    """The limits, bounded by those of all ancestors: YuniKorn refuses a ``max`` beyond the parent's."""
    own = {
        name: translation.share_in(queue, name).limit
        for name in translation.RESOURCES
        if translation.share_in(queue, name).limit != UNLIMITED
    }
    return {name: min(limit, above.get(name, limit)) for name, limit in own.items()}


def _guaranteed_amounts(queues: translation.AppliedQueues, queue: Queue, most: Amounts) -> Amounts:
    result = {}
    for name in translation.RESOURCES:
        quota = translation.share_in(queue, name).quota
        if quota == UNLIMITED:
            # An unlimited quota would guarantee all capacity; a resource that nobody lacks needs no guarantee.
            if name != "gpu" or queue.name in queues.parents:
                continue
            quota = queues.capacity(name)
        result[name] = min(quota, most.get(name, quota))
    return result


def _amount_texts(amounts: Amounts) -> dict[str, str]:
    # It reads thousandths of CPUs only.
    if amounts.get("gpu", 0) % 1000:
        raise contract.NotExpressible(NAME, "part of a GPU", "quota or limit of a Queue")
    return {_NAMES[name]: translation.format_quantity(name, amount) for name, amount in amounts.items()}


# --- work -------------------------------------------------------------------------------------------------------------

_TASK_GROUP = "workers"


def _translate_object(
    obj: Object, queues: translation.AppliedQueues, reading: translation.WorkReader
) -> Iterator[Object]:
    if kind_key(obj) == "PodGroup":
        queues.check_work(reading.of_group(obj).queue, NAME, object_name(obj))
    works = reading.of(obj)
    for work in works:
        queues.check_work(work.queue, NAME, object_name(obj))
    if not works:
        yield obj
        return
    if any(work.gang for work in works) and len(works) > 1:
        raise contract.NotExpressible(NAME, "gang of several kinds of pods", object_name(obj))

    def say(metadata: dict[str, Any], spec: dict[str, Any], work: translation.TemplateWork) -> None:
        notes = metadata.setdefault("annotations", {})
        notes[APP_ID] = work.gang or application(obj)
        notes[QUEUE] = queue_path(queues, work.queue)
        if not work.preemptible:
            notes[ALLOW_PREEMPTION] = "false"
        if work.gang:
            notes |= _gang(spec, work)

    yield translation.rewrite_templates(obj, works, SCHEDULER_NAME, say)


def application(obj: Object) -> str:
    """The application ID of the pods of one object."""
    return f"{obj['kind'].lower()}-{name_of(obj) or metadata_of(obj).get('generateName', '').rstrip('-')}"


def _gang(spec: dict[str, Any], work: translation.TemplateWork) -> dict[str, str]:
    """Placeholders may go where the pods may go. Hard: all placeholders or none, as in KAI."""
    group: dict[str, Any] = {"name": _TASK_GROUP, "minMember": work.min_member, "minResource": _minimum_resources(spec)}
    for field in ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"):
        if spec.get(field):
            group[field] = spec[field]
    return {
        TASK_GROUP: _TASK_GROUP,
        TASK_GROUPS: json.dumps([group], sort_keys=True),
        GANG_POLICY: "gangSchedulingStyle=Hard",
    }


def _minimum_resources(spec: dict[str, Any]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in sorted(pod_amounts(spec).items())}


# --- evictions --------------------------------------------------------------------------------------------------------

Fetch = Callable[[str], tuple[str, str | None]]

_LOG = f"http://{LOOPBACK}:{PORT}/ws/v1/events/batch"
_PREEMPTED = re.compile(
    r"^Preempted by (?:\S+ from application \S+|Quota change enforcement process) in (?P<queue>\S+)$"
)


class PreemptionLog:
    """An ``EvictionFinder``. ``fetch``: gets the text at a URL, and the problem. Each entry of the log is read once."""

    def __init__(self, fetch: Fetch = programs.fetch_url) -> None:
        self._fetch = fetch
        self._instance = ""
        self._next = 0
        self._messages: dict[str, str] = {}

    def __call__(self, pods: Sequence[Object]) -> dict[str, contract.EvictionReason]:
        leaving = {uid_of(pod): pod for pod in pods if is_terminating(pod)}
        # YuniKorn writes the entry before it deletes the pod.
        if any(uid not in self._messages for uid in leaving):
            self._read()
        return {uid: _stop(pod, self._messages[uid]) for uid, pod in leaving.items() if uid in self._messages}

    def _read(self) -> None:
        while True:
            text, problem = self._fetch(f"{_LOG}?start={self._next}")
            if problem is not None:
                return
            log = json.loads(text)
            if log["InstanceUUID"] != self._instance:
                # Another process, with a new log.
                again, self._instance = self._next > 0, log["InstanceUUID"]
                self._next = 0
                if again:
                    continue
            records = log["EventRecords"] or ()
            for record in records:
                if _PREEMPTED.match(record.get("message", "")):
                    self._messages[record["objectID"]] = record["message"]
            # A long log has lost its oldest entries, and returns nothing for their numbers.
            reached = self._next + len(records) if records else max(self._next, log["LowestID"])
            if reached == self._next:
                return
            self._next = reached


def _stop(pod: Object, message: str) -> contract.EvictionReason:
    """Reclaim between queues and preemption in a queue have the same message."""
    match = _PREEMPTED.match(message)
    queue = match["queue"] if match else ""
    own = annotations_of(pod).get(QUEUE, "")
    return contract.EvictionReason(
        message, contract.EvictionCondition("preempt" if queue == own else "reclaim", "", queue.rpartition(".")[2])
    )


# --- idle detection ---------------------------------------------------------------------------------------------------

RETRY_SECONDS = 18.0
"""A request for which no victim was found is retried after 15 s (``preemptAttemptFrequency``)."""

CHECK_SECONDS = 1.0


class YuniKornIdleDetector:
    """``plane``: that runs it; ``cluster``: a client of it."""

    def __init__(self, plane: contract.Plane, cluster: Cluster) -> None:
        self._plane = plane
        self._next_try = programs.RetryTracker(
            cluster, RETRY_SECONDS, lambda pod: pod["spec"].get("schedulerName") == SCHEDULER_NAME
        )
        self._checked = float("-inf")

    def changed(self) -> None:
        """Nothing to record: changes show on the pods."""

    def is_idle(self) -> bool:
        now = time.monotonic()
        # This is called far more often than once a second, and checking processes costs time.
        if now - self._checked >= CHECK_SECONDS:
            programs.check_programs(self._plane, (NAME,))
            self._checked = now
        return not self._next_try.owed()


# --- the process ------------------------------------------------------------------------------------------------------


class YuniKornProcesses(programs.AddonProcesses):
    name = NAME

    def start(self, cluster: Cluster, start: contract.StartSettings, tell: Tell = lambda _: None) -> None:
        """Returns when it reports that it is healthy. Raises MissingComponents if it is not installed, SchedulerFailed if another one runs
        on this machine."""
        if not is_free_everywhere(PORT):
            raise contract.SchedulerFailed(
                f"YuniKorn can't be started: the port {PORT} of this machine is in use (by another lab with YuniKorn?), and YuniKorn "
                "can't use another one; end that lab first"
            )
        cluster.apply(namespace_object(NAMESPACE))
        cluster.apply(config_map(translation.AppliedQueues((), cluster)))
        works = programs.metrics_check(
            f"http://{LOOPBACK}:{PORT}/ws/v1/scheduler/healthcheck",
            '"Healthy": ?true',
            "it does not say that it is healthy",
        )
        program = programs.Program(NAME, self._addon.programs[NAME], (), PORT, works, {"NAMESPACE": NAMESPACE})
        programs.run_programs(self._plane, [program])

    def idle_detector(self, cluster: Cluster) -> contract.IdleDetector:
        return YuniKornIdleDetector(self._plane, cluster)


# --- YuniKorn as a scheduler under test -------------------------------------------------------------------------------


@dataclass(frozen=True)
class YuniKorn(contract.SchedulerUnderTest):
    """It reports evictions only in its own log of events."""

    title = "YuniKorn"
    scheduler_name = SCHEDULER_NAME
    one_per_machine = True  # the port of its REST API is fixed in its code
    # An application whose pods are all gone exists for 30 s more (``completingTimeout``). A gang of the same name would be admitted pod
    # by pod in that time, because its room counts as reserved.
    restart_for_each_lab = True

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        queues = translation.AppliedQueues(objects, there)
        reading = translation.WorkReader(objects, there, NAME)
        changed = [index for index, obj in enumerate(objects) if kind_key(obj) == "Queue"]
        if changed:
            queues.refuse_weights(NAME)
            queues.refuse_overcommitted(NAME)
            queues.refuse_min_runtimes(NAME)
        translations = [list(_translate_object(obj, queues, reading)) for obj in objects]
        if changed:
            # KAI's own objects stay, because labs count by them; this scheduler ignores them.
            translations[changed[-1]].append(config_map(queues))
        return translations

    def beside(self, plane: contract.Plane, programs: ComponentSet | None = None) -> YuniKornProcesses:
        return YuniKornProcesses(plane)

    def check_options(self) -> None:
        """Raises MissingComponents if it is not installed."""
        find_addon(NAME)

    def stopped(self, there: Cluster) -> contract.EvictionFinder:
        return PreemptionLog()

    def code(self, message: str) -> str:
        """Empty for a message that only says that there is no room."""
        return "OverLimit" if "does not fit in queue" in message or "queue quota" in message else ""
