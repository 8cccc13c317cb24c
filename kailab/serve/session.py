"""The lab behind the page: looked at, changed, taken back. All of it runs in one thread, one thing after the other.

The lab lives in its file, as between commands: each change holds its lock, and what other commands do to it is seen here. So nothing is
lost when the server ends, and nobody has to end it to type a command. Between changes it is kept in memory (``holding``), and who looks on
sees a change before it is saved; whoever asked for it is answered afterwards."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from kailab.cluster.protocol import VirtualTime
from kailab.errors import EvidenceError, InputError, StateError
from kailab.evidence.lab_record import LabRecord
from kailab.lab import kept
from kailab.lab.became import LabChanges
from kailab.lab.capture import recorded
from kailab.lab.garbage import collector_off
from kailab.lab.kept import Stamp
from kailab.lab.lab import Lab
from kailab.lab.settle import CYCLE_SECONDS
from kailab.lab.whatif.trial import Alternative, what_if
from kailab.lab.wording import elapsed
from kailab.serve import held_lab
from kailab.serve.actions import Action, PlannedAction, plan_action
from kailab.serve.held_lab import HeldLab, LabWatcher
from kailab.serve.view import PageView, ViewBuilder

Tell: TypeAlias = Callable[[str], None]
Show: TypeAlias = Callable[[PageView], None]

MOST_PREVIEWS = 32
MANY_PODS = 10_000
"""In a lab of so many a cycle takes so long that a change is shown before it, and what the first one did before the others are through."""
MOST_SECONDS = 366 * 86_400.0


class OutdatedRequest(InputError):
    """What was previewed is not what would be done now."""


@dataclass(frozen=True)
class PreviewedAction:
    """``stamp``: of the lab that it was tried on."""

    wished: PlannedAction
    stamp: Stamp


class LabSession:
    """``tell`` gets what is waited for and what goes unrecorded. ``show`` gets the lab after a change, before it is saved; where it can't be
    saved the lab is to be looked at again."""

    def __init__(self, path: Path, tell: Tell, show: Show | None = None) -> None:
        self.path = path
        self.show = show
        self.many_pods = MANY_PODS
        self.paused = False
        self.said = ""
        """What was done last, in words."""
        self.revision = 0
        """Of what is shown: another number for each state of the lab, and of its controls, that somebody can have seen."""
        self._tell = tell
        self._stamp: Stamp = None
        self._holding = HeldLab(path, tell)
        self._past = held_lab.UndoHistory()
        self._previews: OrderedDict[str, PreviewedAction] = OrderedDict()
        self._virtual = True
        self._onlooker: LabWatcher | None = None

    # --- looked at -----------------------------------------------------------------------------------------------

    def look(self) -> PageView:
        """How the lab stands. Raises StateError, EvidenceError."""
        with kept.locked(self.path, self._tell):
            stamp = self.stamp()
            if stamp != self._stamp:
                # Somebody else did something to it, or began another: what was kept is not what came before.
                self._past.forget()
                self._stamp = stamp
                self.revision += 1
                self.close()
            with self._seen() as lab:
                self._virtual = isinstance(lab.cluster, VirtualTime)
                view = None if self._virtual else self._view(lab)
            if view is None:
                # To stay in memory: what is done to it next is told by what is new.
                with collector_off():
                    self._holding.catch_up()
                    view = self._view(self._holding.lab())
                    self._holding.stay()
        # What changes while it is looked at is news again.
        if not self._virtual and self._onlooker is None:
            self._onlooker = LabWatcher(self.path)
        return view

    def stamp(self) -> Stamp:
        """Of the file as it is; None where there is none."""
        return kept.stamp(self.path)

    @property
    def stale(self) -> bool:
        """Whether somebody else changed the lab since it was looked at."""
        return self.stamp() != self._stamp

    def moved(self) -> bool:
        """Whether a cluster that goes on by itself has changed since this was asked last."""
        return self._onlooker is not None and self._onlooker.moved()

    def close(self) -> None:
        """Nobody looks on any more."""
        self._holding.let_go()
        if self._onlooker is not None:
            self._onlooker.close()
            self._onlooker = None

    def controls(self) -> Mapping[str, Any]:
        """What can be done beside changes of objects; ``why`` it can't be."""
        real = (
            ""
            if self._virtual
            else "the cluster of this lab has a clock of its own, and its scheduler is another process"
        )
        last = self._past.last
        nothing = "nothing was done from this page since the lab was begun, or changed by somebody else"
        return {
            "paused": self.paused,
            "pause": {"why": real},
            "step": {"why": real},
            "advance": {"why": real},
            "undo": {
                "why": "what a real API server was told can't be taken back" if real else "" if last else nothing,
                "what": last.what if last else "",
            },
        }

    # --- changed -------------------------------------------------------------------------------------------------

    def preview(self, wish: Action) -> dict[str, Any]:
        """What would become of the lab: tried on a copy, beside the lab left alone. Raises InputError, NotSettled."""
        stamp = self.stamp()
        with self._seen(to_try=True) as lab:
            found = plan_action(lab, wish)
            tried = what_if(lab, [Alternative(found.title, found.changes)])
        number = secrets.token_hex(8)
        self._previews[number] = PreviewedAction(found, stamp)
        while len(self._previews) > MOST_PREVIEWS:
            self._previews.popitem(last=False)
        comparison = tried.comparisons[0]
        return {
            "id": number,
            "title": found.title,
            "notes": list(found.notes),
            "summary": comparison.summary(),
            "after": elapsed(max(0.0, tried.end - tried.start)),  # a real clock goes on meanwhile
            "scheduler": tried.scheduler,
            **{part: comparison.data()[part] for part in ("workloads", "queues")},
        }

    def apply(self, number: str) -> str:
        """Carry out what was previewed, if the lab is still as it was then. Raises InputError, Outdated, NotSettled."""
        preview = self._previews.get(number)
        if preview is None:
            raise OutdatedRequest("there is no such preview any more; preview the change again")

        def do(lab: Lab) -> str:
            before = LabChanges(lab)
            for change in preview.wished.changes:
                change.do(lab)
            return self._settled(lab, before)

        told = self._act(preview.wished.title, do, preview.stamp)
        del self._previews[number]
        return told

    def pause(self, seen: int | None = None) -> str:
        """From now on changes are not acted on before the scheduler is stepped or goes on. ``seen``, here and below: the revision that whoever asks
        has seen. Raises Outdated where the lab is another by now."""
        self._check_virtual()
        self._as_seen(seen)
        self.paused = True
        self.revision += 1
        self.said = "The scheduler is paused"
        return self.said

    def go_on(self, seen: int | None = None) -> str:
        """Until nothing changes. Raises NotSettled, Outdated."""
        self._check_virtual()

        def do(lab: Lab) -> str:
            before = LabChanges(lab)
            self._settle(lab)
            self.paused = False
            return before.told()

        return self._act("The scheduler goes on", do, self._as_seen(seen))

    def step(self, seen: int | None = None) -> str:
        """The next cycle of the scheduler; where it has nothing to decide, on to the next moment, a second at most. Raises Outdated."""
        self._check_virtual()

        def do(lab: Lab) -> str:
            before, begun, cycles = LabChanges(lab), lab.now, lab.log.cycle
            for _ in lab.moments(CYCLE_SECONDS):
                if lab.log.cycle > cycles or lab.now > begun:
                    break
            return before.told("one step,")

        return self._act("Step", do, self._as_seen(seen))

    def advance(self, seconds: float, seen: int | None = None) -> str:
        """Raises InputError, NotSettled, Outdated."""
        self._check_virtual()
        if not 0 < seconds <= MOST_SECONDS:
            raise InputError(f"expected seconds from 0 to {MOST_SECONDS:.0f}, not {seconds:g}")

        def do(lab: Lab) -> str:
            before = LabChanges(lab)
            lab.advance(seconds)
            if not self.paused:
                lab.settle()
            return before.told("ran for")

        return self._act(f"Advance {elapsed(seconds)}", do, self._as_seen(seen))

    def undo(self, seen: int | None = None) -> str:
        """The lab as it was before the last change. Raises InputError where there is none, Outdated."""
        self._check_virtual()
        self._as_seen(seen)
        with kept.locked(self.path, self._tell):
            last = self._past.last
            if self.stale or last is None:
                self._past.forget()
                raise InputError(
                    "there is nothing to take back: the lab is as it was begun, or somebody else changed it"
                )
            self._holding.let_go()
            _kept(lambda: held_lab.restore_undo_point(self.path, last))
            self._past.pop()
            self._stamp = self.stamp()
            self.revision += 1
        self.said = f"Taken back: {last.what}"
        return self.said

    # --- inside --------------------------------------------------------------------------------------------------

    @contextmanager
    def _seen(self, *, to_try: bool = False) -> Iterator[Lab]:
        """The lab as the file has it, to look at. ``to_try``: something that may be done to it next."""
        held = self._holding.lab() if to_try and self._virtual and not self.stale else self._holding.held
        if held is not None:
            with collector_off():
                yield held
            return
        with kept.looked_at(self.path, again=True) as lab:
            yield lab

    def _act(self, what: str, do: Callable[[Lab], str], stamp: Stamp = None) -> str:
        """Do something to the lab, show it and save it. ``stamp``: only to the lab as it was then."""
        with kept.locked(self.path, self._tell):
            if stamp is not None and self.stamp() != stamp:
                raise OutdatedRequest(
                    "the lab has changed since this was previewed or shown; look at it, and ask for it again"
                )
            if self.stale:
                self._past.forget()
            if self._virtual:
                self._changed(what, do)
            else:
                with kept.resumed(self.path, self._tell) as lab:
                    self.said = f"{what}: {do(lab)}"
                self.revision += 1
            self._stamp = self.stamp()
        return self.said

    def _as_seen(self, seen: int | None) -> Stamp:
        """The lab's stamp, where what somebody has seen is what there is; None where nobody says what was seen. Raises Outdated."""
        if seen is None:
            return None
        if seen != self.revision or self.stale:
            raise OutdatedRequest(
                "the lab has changed since the page showed it, and nothing was done; look at it as it is now, and ask again"
            )
        return self._stamp

    def _changed(self, what: str, do: Callable[[Lab], str]) -> None:
        """By who holds the lock."""
        before, said, paused = _kept(lambda: held_lab.take_undo_point(self.path, what)), self.said, self.paused
        lab = self._holding.lab()
        self.said = f"{what}: the scheduler is at work"
        try:
            with collector_off():
                told = f"{what}: {do(lab)}"
        except BaseException:
            # It may be half done: the lab is what the file has.
            self._holding.let_go()
            self.said, self.paused = said, paused
            raise
        self.said = told
        self.revision += 1
        self._past.push(before)
        try:
            with collector_off():
                self._show(lab)
            self._holding.save()
        except BaseException:
            self._holding.let_go()
            # What was shown of it is not what there is.
            self.revision += 1
            self._past.pop()
            self.said, self.paused = said, paused
            raise

    def _show(self, lab: Lab) -> None:
        if self.show is None:
            return
        self.revision += 1
        # One that can't be shown is changed all the same.
        with suppress(EvidenceError):
            self.show(self._view(lab))

    def _view(self, lab: Lab) -> PageView:
        if lab is self._holding.held:
            return self._holding.view()
        return ViewBuilder().view(lab, recorded(lab, LabRecord(self.path).whole()))

    def _settled(self, lab: Lab, before: LabChanges) -> str:
        if self.paused:
            return "the scheduler is paused and has not acted on it yet"
        if self._is_large(lab):
            self._show(lab)
        self._settle(lab)
        return before.told()

    def _settle(self, lab: Lab) -> None:
        if not self._is_large(lab):
            lab.settle()
            return
        told: list[bool] = []

        def between() -> None:
            if not told:
                told.append(True)
                self._show(lab)

        lab.settle(between)

    def _is_large(self, lab: Lab) -> bool:
        """Whether those who look on are shown a change, and its first cycle, before the rest of it."""
        return self._virtual and len(lab.cluster.list("Pod")) >= self.many_pods

    def _check_virtual(self) -> None:
        if not self._virtual:
            raise InputError(
                "a lab on a real API server can't be paused, stepped or taken back: its time passes by itself"
            )


def _kept(do: Callable[[], Any]) -> Any:
    try:
        return do()
    except (OSError, EvidenceError) as error:
        raise StateError(f"the lab can't be kept as it is: {error}") from error
