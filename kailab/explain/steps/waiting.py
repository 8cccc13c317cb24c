"""Time that passes: how long until it runs, found by letting time pass on a copy of the lab."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

from kailab.cluster.embedded import EmbeddedCluster
from kailab.errors import KailabError
from kailab.explain.steps.proposal import Disturbance, Proposal, Way
from kailab.explain.steps.setting import Setting
from kailab.lab.fork import fork
from kailab.lab.wording import elapsed

HORIZON = 25 * 3600.0
"""Seconds that are looked ahead: what happens every day is in it."""
MOMENTS = 60
"""Moments at which something changes that are looked at, in a small lab."""
AFFORDABLE = 12_000
"""Pods that are looked at for it in all."""


def wait(setting: Setting) -> Iterator[Way]:
    """Let pass the time after which the subject runs, if that is known: delays, protections, run times, a schedule."""
    if not _anything_due(setting):
        return
    moments = max(3, min(MOMENTS, AFFORDABLE // max(1, len(setting.picture.pods))))
    with closing(fork(setting.lab)) as copy:
        begun = copy.now
        seconds: float | None = None
        try:
            copy.settle_if_changed()
            for _ in islice(copy.moments(HORIZON), moments):
                if setting.subject.runs(copy):
                    seconds = math.ceil(copy.now - begun)
                    break
        except KailabError:
            return
    if seconds:
        changes = ({"advance": seconds},)
        yield Way((Proposal(f"Wait {elapsed(seconds)}", changes, Disturbance.WAITING),))


def _anything_due(setting: Setting) -> bool:
    """Whether anything happens by itself: a timer of the cluster, or a time at which the next cycle decides differently."""
    cluster = setting.lab.cluster
    if not isinstance(cluster, EmbeddedCluster) or cluster.next_timer() is not None:
        return True
    uids = [uid for group in setting.podgroups if (uid := group["metadata"]["uid"]) in setting.standing.records]
    return setting.standing.trials.about(*uids)().decisions.wake_at is not None
