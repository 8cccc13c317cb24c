"""GPU time that goes in must come out: two sums that hold in every replay, whatever was decided."""

from __future__ import annotations

import msgspec

from kailab.errors import KailabError
from kailab.replay.work import Accounts


class Unbalanced(KailabError):
    """GPU time was lost or made: a defect of kailab, whose figures mean nothing then."""

    exit_code = 1


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """In milli-GPU-seconds.

    ``submitted`` = ``done`` + ``to_run`` + ``to_wait``: what the jobs that arrived ask for is done (by those that ended, and so far by others), or still to
    be done by jobs that run or that wait. Where jobs have no end (``endless``) there is nothing to hold against this.
    ``held`` = ``done`` + ``lost`` + ``overhead``: the time for which GPUs were bound, summed up moment by moment, is work that counts, work that has to be done again, or was
    spent on starting and leaving, summed up pod by pod."""

    submitted: int
    done: int
    to_run: int
    to_wait: int
    held: int
    lost: int
    overhead: int
    endless: bool = False

    @property
    def faults(self) -> list[str]:
        found = []
        if self.submitted != self.done + self.to_run + self.to_wait:
            found.append(
                f"submitted {self.submitted} is not done {self.done} + to run {self.to_run} + to wait {self.to_wait}"
            )
        if self.held != self.done + self.lost + self.overhead:
            found.append(f"held {self.held} is not done {self.done} + lost {self.lost} + overhead {self.overhead}")
        return found


def balance(accounts: Accounts, now: int) -> Balance:
    """As things stand at ``now``, to which time has passed. Raises Unbalanced."""
    done, overhead = accounts.useful, accounts.overhead
    for work, life in accounts.live():
        ran = accounts.ran(work, life, now)
        done += ran * work.milli
        overhead += (now - life.bound - ran) * work.milli
    to_run = to_wait = 0
    for work in accounts.unfinished.values():
        left = accounts.left(work, now)
        if work.lives:
            to_run += left
        else:
            to_wait += left
    # Work without an end asks for what it gets.
    submitted = done if accounts.endless else accounts.submitted
    found = Balance(
        submitted=submitted,
        done=done,
        to_run=0 if accounts.endless else to_run,
        to_wait=0 if accounts.endless else to_wait,
        held=accounts.held_time,
        lost=accounts.lost,
        overhead=overhead,
        endless=accounts.endless,
    )
    if found.faults:
        raise Unbalanced(f"GPU time does not balance: {'; '.join(found.faults)} (milli-GPU-seconds)")
    return found
