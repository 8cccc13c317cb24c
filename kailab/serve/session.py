"""The lab behind the page: it is read, changed, previewed and undone here, in one thread.

The lab lives in its file, as it does between commands. Each change holds the file's lock, and changes by other commands are noticed here. Nothing is
lost when the server ends, and commands can be used while it runs. Between changes the lab is kept in memory (``held_lab``). A change is shown to
all open pages before it is saved; the request is answered after it is saved."""

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
from kailab.evidence.wording import elapsed
from kailab.lab import lab_files
from kailab.lab.capture import make_recorder
from kailab.lab.garbage import collector_off
from kailab.lab.lab import Lab
from kailab.lab.lab_changes import LabChanges
from kailab.lab.lab_files import Stamp
from kailab.lab.settle import CYCLE_SECONDS
from kailab.model.callbacks import Tell
from kailab.model.times import DAY
from kailab.serve import held_lab
from kailab.serve.actions import PageAction, PlannedPageAction, plan_action
from kailab.serve.held_lab import HeldLab, LabWatcher
from kailab.serve.view import PageView, ViewBuilder
from kailab.whatif.alternatives import Alternative, what_if

Show: TypeAlias = Callable[[PageView], None]

MOST_PREVIEWS = 32
EXPLAIN_SECONDS = 5.0
"""Processor time for trying steps of an explanation; other requests wait meanwhile."""
MANY_PODS = 10_000
"""With this many pods a cycle takes so long that a change is shown before the first cycle, and once more after it."""
MOST_SECONDS = 366 * DAY


class OutdatedRequest(InputError):
    """The lab has changed since the page showed or previewed it."""


@dataclass(frozen=True)
class PreviewedAction:
    """``stamp``: the stamp of the lab's file when the action was tried."""

    planned: PlannedPageAction
    stamp: Stamp


class LabSession:
    """``tell`` is called with notices: a wait for the lock, a record that could not be written. ``show`` is called with the view after a change, before
    it is saved. If saving fails, the lab must be read again."""

    def __init__(self, path: Path, tell: Tell, show: Show | None = None) -> None:
        self.path = path
        self.show = show
        self.many_pods = MANY_PODS
        self.paused = False
        self.last_operation = ""
        """The last operation, in words."""
        self.revision = 0
        """A number that grows whenever the lab or its controls change in a way that a page shows."""
        self._tell = tell
        self._stamp: Stamp = None
        self._held_lab = HeldLab(path, tell)
        self._undo_history = held_lab.UndoHistory()
        self._previews: OrderedDict[str, PreviewedAction] = OrderedDict()
        self._virtual = True
        self._watcher: LabWatcher | None = None

    # --- reading -------------------------------------------------------------------------------------------------

    def refresh(self) -> PageView:
        """Read the lab's present state. Raises StateError, EvidenceError."""
        with lab_files.lock_lab(self.path, self._tell):
            stamp = self.stamp()
            if stamp != self._stamp:
                # Another process changed the lab or started a new one, so the undo history does not apply any more.
                self._undo_history.forget()
                self._stamp = stamp
                self.revision += 1
                self.close()
            with self._open_for_reading() as lab:
                self._virtual = isinstance(lab.cluster, VirtualTime)
                view = None if self._virtual else self._view(lab)
            if view is None:
                # The lab stays in memory, so that the next change is recorded as a difference to this state.
                with collector_off():
                    self._held_lab.catch_up()
                    view = self._view(self._held_lab.lab())
                    self._held_lab.stay()
        # The watch starts after the reading: a change during the reading is reported once more.
        if not self._virtual and self._watcher is None:
            self._watcher = LabWatcher(self.path)
        return view

    def stamp(self) -> Stamp:
        """The stamp of the file now; None if there is no file."""
        return lab_files.stamp(self.path)

    @property
    def stale(self) -> bool:
        """True if another process changed the lab since it was read."""
        return self.stamp() != self._stamp

    def has_changed(self) -> bool:
        """True if a cluster that runs by itself has changed since the last call."""
        return self._watcher is not None and self._watcher.has_changed()

    def close(self) -> None:
        """Release the lab in memory and the watch."""
        self._held_lab.release()
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None

    def controls(self) -> Mapping[str, Any]:
        """The state of pause, step, advance and undo; ``why`` says why one is not available."""
        real = (
            ""
            if self._virtual
            else "this lab runs on a real API server: its clock and its scheduler can't be controlled"
        )
        last = self._undo_history.last
        no_changes = "nothing was changed from this page since the lab started or another process changed it"
        return {
            "paused": self.paused,
            "pause": {"why": real},
            "step": {"why": real},
            "advance": {"why": real},
            "undo": {
                "why": "changes on a real API server can't be undone" if real else "" if last else no_changes,
                "what": last.what if last else "",
            },
        }

    def explain(self, namespace: str, name: str) -> list[str]:
        """The answer about a PodGroup, line by line, as ``kailab explain`` prints it. Raises NotFound."""
        with self._open_for_reading(to_try=True) as lab:
            return lab.explain("PodGroup", name, namespace, timeout=EXPLAIN_SECONDS).lines()

    # --- changing ------------------------------------------------------------------------------------------------

    def preview(self, action: PageAction) -> dict[str, Any]:
        """Try an action on a copy, and compare with a copy without it. Raises InputError, NotSettled."""
        stamp = self.stamp()
        with self._open_for_reading(to_try=True) as lab:
            planned = plan_action(lab, action)
            tried = what_if(lab, [Alternative(planned.title, planned.changes)])
        preview_id = secrets.token_hex(8)
        self._previews[preview_id] = PreviewedAction(planned, stamp)
        while len(self._previews) > MOST_PREVIEWS:
            self._previews.popitem(last=False)
        comparison = tried.comparisons[0]
        return {
            "id": preview_id,
            "title": planned.title,
            "notes": list(planned.notes),
            "summary": comparison.summary(),
            "after": elapsed(max(0.0, tried.end - tried.start)),  # a real clock advances meanwhile
            "scheduler": tried.scheduler,
            **{key: comparison.data()[key] for key in ("workloads", "queues")},
        }

    def apply(self, preview_id: str) -> str:
        """Carry out a previewed action if the lab has not changed since. Raises InputError, OutdatedRequest, NotSettled."""
        preview = self._previews.get(preview_id)
        if preview is None:
            raise OutdatedRequest("this preview is not available any more; preview the change again")

        def do(lab: Lab) -> str:
            before = LabChanges(lab)
            for change in preview.planned.changes:
                change.do(lab)
            return self._settle_and_describe(lab, before)

        result = self._act(preview.planned.title, do, preview.stamp)
        del self._previews[preview_id]
        return result

    def pause(self, seen: int | None = None) -> str:
        """Stop the scheduler until ``step`` or ``go_on``. ``seen``, here and below: the revision that the page shows. Raises OutdatedRequest if the lab
        has changed since."""
        self._check_virtual()
        self._check_seen(seen)
        self.paused = True
        self.revision += 1
        self.last_operation = "The scheduler is paused"
        return self.last_operation

    def go_on(self, seen: int | None = None) -> str:
        """Let the scheduler continue, and settle the lab. Raises NotSettled, OutdatedRequest."""
        self._check_virtual()

        def do(lab: Lab) -> str:
            before = LabChanges(lab)
            self._settle(lab)
            self.paused = False
            return before.describe()

        return self._act("The scheduler goes on", do, self._check_seen(seen))

    def step(self, seen: int | None = None) -> str:
        """Run the next cycle of the scheduler. If it has nothing to decide, advance to the next timer, one second at most. Raises OutdatedRequest."""
        self._check_virtual()

        def do(lab: Lab) -> str:
            before, begun, cycles = LabChanges(lab), lab.now, lab.log.cycle
            for _ in lab.moments(CYCLE_SECONDS):
                if lab.log.cycle > cycles or lab.now > begun:
                    break
            return before.describe("one step,")

        return self._act("Step", do, self._check_seen(seen))

    def advance(self, seconds: float, seen: int | None = None) -> str:
        """Let time pass. Raises InputError, NotSettled, OutdatedRequest."""
        self._check_virtual()
        if not 0 < seconds <= MOST_SECONDS:
            raise InputError(f"expected seconds from 0 to {MOST_SECONDS:.0f}, not {seconds:g}")

        def do(lab: Lab) -> str:
            before = LabChanges(lab)
            lab.advance(seconds)
            if not self.paused:
                lab.settle()
            return before.describe("ran for")

        return self._act(f"Advance {elapsed(seconds)}", do, self._check_seen(seen))

    def undo(self, seen: int | None = None) -> str:
        """Restore the lab as it was before the last change. Raises InputError if there is none, OutdatedRequest."""
        self._check_virtual()
        self._check_seen(seen)
        with lab_files.lock_lab(self.path, self._tell):
            last = self._undo_history.last
            if self.stale or last is None:
                self._undo_history.forget()
                raise InputError(
                    "there is nothing to undo: nothing was changed since the lab started or another process changed it"
                )
            self._held_lab.release()
            _undo_step(lambda: held_lab.restore_undo_point(self.path, last))
            self._undo_history.pop()
            self._stamp = self.stamp()
            self.revision += 1
        self.last_operation = f"Undone: {last.what}"
        return self.last_operation

    # --- internals------------------------------------------------------------------------------------------------

    @contextmanager
    def _open_for_reading(self, *, to_try: bool = False) -> Iterator[Lab]:
        """The lab of the file, for reading and forking. ``to_try``: load it into memory, so that a change that follows need not read it
        again."""
        held = self._held_lab.lab() if to_try and self._virtual and not self.stale else self._held_lab.held
        if held is not None:
            with collector_off():
                yield held
            return
        with lab_files.open_read_only(self.path, again=True) as lab:
            yield lab

    def _act(self, what: str, do: Callable[[Lab], str], stamp: Stamp = None) -> str:
        """Change the lab, show it and save it. ``stamp``: only if the file still has this stamp."""
        with lab_files.lock_lab(self.path, self._tell):
            if stamp is not None and self.stamp() != stamp:
                raise OutdatedRequest(
                    "the lab has changed since it was previewed or shown; check the page and try again"
                )
            if self.stale:
                self._undo_history.forget()
            if self._virtual:
                self._change_in_memory(what, do)
            else:
                with lab_files.resume_lab(self.path, self._tell) as lab:
                    self.last_operation = f"{what}: {do(lab)}"
                self.revision += 1
            self._stamp = self.stamp()
        return self.last_operation

    def _check_seen(self, seen: int | None) -> Stamp:
        """The lab's stamp if the page shows the present revision; None without ``seen``. Raises OutdatedRequest."""
        if seen is None:
            return None
        if seen != self.revision or self.stale:
            raise OutdatedRequest(
                "the lab has changed since the page showed it, so nothing was done; check the page and try again"
            )
        return self._stamp

    def _change_in_memory(self, what: str, do: Callable[[Lab], str]) -> None:
        """Change a lab with virtual time; the caller holds the lock."""
        before, operation, paused = (
            _undo_step(lambda: held_lab.take_undo_point(self.path, what)),
            self.last_operation,
            self.paused,
        )
        lab = self._held_lab.lab()
        self.last_operation = f"{what}: the scheduler is at work"
        try:
            with collector_off():
                result = f"{what}: {do(lab)}"
        except BaseException:
            # The change may be incomplete. The file has the last complete state.
            self._held_lab.release()
            self.last_operation, self.paused = operation, paused
            raise
        self.last_operation = result
        self.revision += 1
        self._undo_history.push(before)
        try:
            with collector_off():
                self._show_changed(lab)
            self._held_lab.save()
        except BaseException:
            self._held_lab.release()
            # The pages already show the change that could not be saved, so a new revision makes them load the state again.
            self.revision += 1
            self._undo_history.pop()
            self.last_operation, self.paused = operation, paused
            raise

    def _show_changed(self, lab: Lab) -> None:
        if self.show is None:
            return
        self.revision += 1
        # A lab that can't be shown is changed nevertheless.
        with suppress(EvidenceError):
            self.show(self._view(lab))

    def _view(self, lab: Lab) -> PageView:
        if lab is self._held_lab.held:
            return self._held_lab.view()
        return ViewBuilder().view(lab, make_recorder(lab, LabRecord(self.path).whole()))

    def _settle_and_describe(self, lab: Lab, before: LabChanges) -> str:
        if self.paused:
            return "the scheduler is paused and has not acted on it yet"
        if self._is_large(lab):
            self._show_changed(lab)
        self._settle(lab)
        return before.describe()

    def _settle(self, lab: Lab) -> None:
        if not self._is_large(lab):
            lab.settle()
            return
        published = False

        def between() -> None:
            nonlocal published
            if not published:
                published = True
                self._show_changed(lab)

        lab.settle(between)

    def _is_large(self, lab: Lab) -> bool:
        """True if a change, and then its first cycle, is shown before the lab has settled."""
        return self._virtual and len(lab.cluster.list("Pod")) >= self.many_pods

    def _check_virtual(self) -> None:
        if not self._virtual:
            raise InputError("a lab on a real API server can't be paused, stepped or undone: its time passes by itself")


def _undo_step(do: Callable[[], Any]) -> Any:
    try:
        return do()
    except (OSError, EvidenceError) as error:
        raise StateError(f"the lab's undo point can't be read or written: {error}") from error
