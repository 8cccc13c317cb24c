"""Why YuniKorn evicted pods, by the log of its own events, which its REST server shows.

It sends them on as Events of the cluster, every two seconds; those of pods that are gone by then are dropped. Where its process is not
on this machine nothing is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from kailab.cluster.controlplane.ports import LOOPBACK
from kailab.cluster.protocol import Object
from kailab.undertest.contract import Stop, Told
from kailab.undertest.programs import fetch
from kailab.undertest.yunikorn.words import PORT, QUEUE

Fetch = Callable[[str], tuple[str, str | None]]

_LOG = f"http://{LOOPBACK}:{PORT}/ws/v1/events/batch"
_PREEMPTED = re.compile(
    r"^Preempted by (?:\S+ from application \S+|Quota change enforcement process) in (?P<queue>\S+)$"
)


class Preemptions:
    """See ``Stopped``. ``fetch``: the text behind a URL, and what went wrong. What it has read of the log it does not read again."""

    def __init__(self, fetch: Fetch = fetch) -> None:
        self._fetch = fetch
        self._instance = ""
        self._next = 0
        self._messages: dict[str, str] = {}

    def __call__(self, pods: Sequence[Object]) -> dict[str, Stop]:
        leaving = {pod["metadata"]["uid"]: pod for pod in pods if "deletionTimestamp" in pod["metadata"]}
        # It is in the log before the pod is deleted.
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
                # Another process, whose log begins anew.
                again, self._instance = self._next > 0, log["InstanceUUID"]
                self._next = 0
                if again:
                    continue
            records = log["EventRecords"] or ()
            for record in records:
                if _PREEMPTED.match(record.get("message", "")):
                    self._messages[record["objectID"]] = record["message"]
            # An old log has lost its beginning, and shows nothing for a number that is gone.
            reached = self._next + len(records) if records else max(self._next, log["LowestID"])
            if reached == self._next:
                return
            self._next = reached


def _stop(pod: Object, message: str) -> Stop:
    """Its sentence is the same for what a queue takes back and for what comes before within one."""
    found = _PREEMPTED.match(message)
    asked = found["queue"] if found else ""
    own = (pod["metadata"].get("annotations") or {}).get(QUEUE, "")
    return Stop(message, Told("preempt" if asked == own else "reclaim", "", asked.rpartition(".")[2]))
