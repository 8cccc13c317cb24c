"""Run YuniKorn beside a control plane, detect when it is idle, and read why it evicted pods.

YuniKorn is configured by a ConfigMap. Its REST server listens on port 9080 of all addresses, which is fixed in its code, so a machine
can run one. The REST server shows YuniKorn's log of events, from which ``PreemptionLog`` reads evictions: it sends them to the cluster
as Events only every two seconds, and drops those of pods that are gone by then. Without a process on this machine nothing is known.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence

from kailab.cluster.base_objects import namespace
from kailab.cluster.controlplane.ports import LOOPBACK, is_free_everywhere
from kailab.cluster.protocol import Cluster
from kailab.model.objects import Object, annotations_of, is_terminating
from kailab.undertest import programs
from kailab.undertest.contract import (
    EvictionCondition,
    EvictionReason,
    IdleDetector,
    Plane,
    SchedulerFailed,
    StartSettings,
    Tell,
)
from kailab.undertest.programs import AddonProcesses, Program, check_programs, fetch_url, metrics_check
from kailab.undertest.retries import RetryTracker
from kailab.undertest.translation import AppliedQueues
from kailab.undertest.yunikorn.messages import NAME, NAMESPACE, PORT, QUEUE, SCHEDULER_NAME
from kailab.undertest.yunikorn.translation import config_map

Fetch = Callable[[str], tuple[str, str | None]]

_LOG = f"http://{LOOPBACK}:{PORT}/ws/v1/events/batch"
_PREEMPTED = re.compile(
    r"^Preempted by (?:\S+ from application \S+|Quota change enforcement process) in (?P<queue>\S+)$"
)


class PreemptionLog:
    """See ``Stopped``. ``fetch``: gets the text at a URL, and the problem. Each entry of the log is read once."""

    def __init__(self, fetch: Fetch = fetch_url) -> None:
        self._fetch = fetch
        self._instance = ""
        self._next = 0
        self._messages: dict[str, str] = {}

    def __call__(self, pods: Sequence[Object]) -> dict[str, EvictionReason]:
        leaving = {pod["metadata"]["uid"]: pod for pod in pods if is_terminating(pod)}
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


def _stop(pod: Object, message: str) -> EvictionReason:
    """Reclaim between queues and preemption in a queue have the same message."""
    found = _PREEMPTED.match(message)
    asked = found["queue"] if found else ""
    own = annotations_of(pod).get(QUEUE, "")
    return EvictionReason(
        message, EvictionCondition("preempt" if asked == own else "reclaim", "", asked.rpartition(".")[2])
    )


# --- idle detection ---------------------------------------------------------------------------------------------------

LOOK_AGAIN_SECONDS = 18.0
"""A request for which no victim was found is retried after 15 s (``preemptAttemptFrequency``)."""

CHECK_SECONDS = 1.0


class YuniKornIdleDetector:
    """``plane``: that runs it; ``cluster``: a client of it. ``monotonic``: measures waiting."""

    def __init__(self, plane: Plane, cluster: Cluster, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._plane = plane
        self._next_try = RetryTracker(cluster, LOOK_AGAIN_SECONDS, _is_its, monotonic)
        self._monotonic = monotonic
        self._checked = float("-inf")

    def changed(self) -> None:
        """Nothing to record: changes show on the pods."""

    def is_idle(self) -> bool:
        """Raises SchedulerFailed with the last lines of the log if it has ended."""
        now = self._monotonic()
        # This is called far more often than once a second, and checking processes costs time.
        if now - self._checked >= CHECK_SECONDS:
            check_programs(self._plane, (NAME,))
            self._checked = now
        return not self._next_try.owed()


def _is_its(pod: Object) -> bool:
    return bool(pod["spec"].get("schedulerName") == SCHEDULER_NAME)


# --- the process ------------------------------------------------------------------------------------------------------


class YuniKornProcesses(AddonProcesses):
    name = NAME

    def start(self, cluster: Cluster, start: StartSettings, tell: Tell = lambda _: None) -> None:
        """Returns when it reports that it is healthy. Raises MissingComponents if it is not installed, SchedulerFailed if another one runs
        on this machine."""
        if not is_free_everywhere(PORT):
            raise SchedulerFailed(
                f"YuniKorn can't be started: the port {PORT} of this machine is in use (by another lab with YuniKorn?), and YuniKorn "
                "can't use another one; end that lab first"
            )
        cluster.apply(namespace(NAMESPACE))
        cluster.apply(config_map(AppliedQueues((), cluster)))
        works = metrics_check(
            f"http://{LOOPBACK}:{PORT}/ws/v1/scheduler/healthcheck",
            '"Healthy": ?true',
            "it does not say that it is healthy",
        )
        program = Program(NAME, self._addon.programs[NAME], (), PORT, works, {"NAMESPACE": NAMESPACE})
        programs.run_programs(self._plane, [program])

    def rest(self, cluster: Cluster) -> IdleDetector:
        return YuniKornIdleDetector(self._plane, cluster)
