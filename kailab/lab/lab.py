"""A lab: one cluster, one fleet and one scheduler under test, with a life.

    with Lab.open("lesson") as lab:
        lab.apply("queues.yaml", "trainer.yaml")
        expect(lab.queue("team-a")).running(gpus=16)
        print(lab.explain_queue("team-a"))

With ``scheduler="kube-scheduler"`` the same manifests run under the baseline: ``schedulerName: kai-scheduler``
is replaced in pods and pod templates as they are applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from kailab.cluster.embedded.storage.persistence import collection_paused
from kailab.errors import InputError
from kailab.evidence.decision_log import DecisionLog, NameIndex
from kailab.lab import saved, subjects
from kailab.lab.commands import LabCommands
from kailab.lab.garbage import collector_off, swept
from kailab.lab.saved import LabFile, SavedLab
from kailab.lab.saved_picture import SavedParts, parts_to_save
from kailab.lab.seen_names import SeenNames
from kailab.lab.spec import LabSpec
from kailab.lab.subjects import Subject
from kailab.lab.venues import Place, Venue, provider_of, venue_for
from kailab.lab.watching import inside
from kailab.scheduler.observers import Observer, Observers, Opening
from kailab.undertest.selection import check_lab, choose_scheduler

# A look at a lab, as most commands are, needs no engine, no manifests and no YAML: what does is imported where it is used.
if TYPE_CHECKING:
    from kailab.engine.config import EngineConfig
    from kailab.evidence.entries import LabFacts
    from kailab.explain.answer import Answer
    from kailab.fleet import Fleet
    from kailab.lab.parts import Parts
    from kailab.lab.settle import Settling
    from kailab.scheduler import SchedulerSettings, UsageParams
    from kailab.scheduler.present import Present

REMEMBERED = 5000  # evictions kept in a saved lab


class Lab(LabCommands):
    """Made by ``open`` or ``resume``. ``venue``: where it lives; ``opened``: when it began, on the clock of ``cluster``."""

    def __init__(
        self,
        venue: Venue,
        spec: LabSpec,
        observers: Sequence[Observer] = (),
        *,
        end: Callable[[], None],
        described: Fleet | None = None,
        read_only: bool = False,
        file: LabFile | None = None,
    ) -> None:
        """``end``: called once the lab has let go of the cluster. ``described``: the fleet, for the record. ``read_only``: controllers
        and scheduler are made when they are first needed, if ever. ``file``: what it was resumed from."""
        self.venue = venue
        self.spec = spec
        self.cluster = venue.cluster
        self.base: Path | None = None  # relative manifest paths are seen from here
        self.last_expectation = ""
        self.observers = Observers(observers)
        names = NameIndex(self.cluster, at_once=not read_only)
        self.log = DecisionLog(names, self.opened, self.observers.wants_decisions, self.observers)
        self.met = SeenNames()
        self.observers.add(self.log, self.met)
        self._end = end
        self._saved_parts: SavedParts = {}
        self._running: tuple[Parts, Settling] | None = None
        if not read_only:
            self._working()
        self._changed = True
        self._closed = False
        if file is not None:
            self._remember(file, read_only)
        fleet = None
        if described is not None:
            from kailab.fleet import definition

            fleet = definition(described)
        self.observers.on_opened(Opening(self.cluster, self.opened, self._origin, fleet))

    def _remember(self, file: LabFile, read_only: bool) -> None:
        lab = file.lab
        self.log.cycle, self.log.evictions, self.log.last = lab.cycle, lab.evictions, lab.last
        self._changed = lab.changed
        if read_only:
            self._saved_parts = file.state.get("looks", {})

    def carry_on(self, before: Lab) -> None:
        """Go on where another lab is that has the same objects: with what was decided, promised and refused there. See
        ``kailab.lab.fork``."""
        self.base, self._changed = before.base, before._changed
        self.log.carry_on(before.log)
        self.met.carry_on(before.met)
        if before._running is not None:
            self._parts.carry_on(before._parts)
        # As those before have, controllers see what there is before it changes: what they act on is the change alone.
        for controller in self._parts.controllers:
            controller.step()

    @property
    def fleet(self) -> str:
        return self.spec.fleet

    @property
    def backend(self) -> str:
        return self.venue.backend

    @property
    def config(self) -> EngineConfig:
        return self.spec.config

    @property
    def usage(self) -> UsageParams:
        return self.spec.usage

    @property
    def adopt_default_scheduler(self) -> bool:
        return self.spec.adopt_default_scheduler

    @property
    def devices(self) -> bool:
        return self.spec.devices

    @property
    def opened(self) -> float:
        return self.spec.opened

    @property
    def kubernetes(self) -> str:
        """Version of the API server; empty for the embedded cluster."""
        return self.venue.kubernetes

    @property
    def _parts(self) -> Parts:
        return self._working()[0]

    @property
    def _pace(self) -> Settling:
        return self._working()[1]

    def _working(self) -> tuple[Parts, Settling]:
        if self._running is None:
            self._running = self.venue.run(self.spec, self.observers, self._latest_changes)
        return self._running

    def _present(self, promised: tuple[str, ...]) -> Present:
        return self._parts.onlooker.present(promised)

    # --- life ----------------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        fleet: str | Path | Fleet = "lesson",
        backend: str = "embedded",
        scheduler: str = "kailab",
        config: EngineConfig | SchedulerSettings | Mapping[str, Any] | str | Path | None = None,
        observers: Sequence[Observer] = (),
        adopt_default_scheduler: bool = False,
        *,
        venue: Venue | None = None,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        devices: bool = False,
    ) -> Lab:
        """A new lab. ``fleet``: the name of one of kailab's, a file, or a Fleet. ``config``: how the scheduler is to decide,
        as a file of KAI's scheduler configuration, its content, or settings read from it. ``observers``: are told what happens
        (a Recorder of kailab.evidence keeps it). Raises InputError, ConnectError.

        On a real API server (a backend other than embedded) the lab lives in ``venue``, and leaves it empty for the next; with
        none it makes itself one, a control plane of its own or the cluster of a ``kubeconfig``, and ends it when it is closed.
        ``devices``: the fleet's GPUs are there for resource claims (DRA), not for the device plugin. What the backend or the
        scheduler does not understand is refused.

        ``adopt_default_scheduler``: pods that name no scheduler are the scheduler under test's too, as in a cluster
        in which it took kube-scheduler's place; otherwise nobody places them. (The baseline takes them anyhow.)
        """
        from kailab.lab.spec import fleet_of
        from kailab.scheduler import settings_of

        given = {
            "config": config,
            "adopt_default_scheduler": adopt_default_scheduler,
            "devices": devices,
            "venue": venue,
        }
        check_lab(backend, scheduler, {**given, "kubeconfig": kubeconfig, "context": context}, spelt=str)
        one = choose_scheduler(scheduler)
        settings = settings_of(one.option("config") if config is None else config)
        described = fleet_of(fleet)
        own = venue is None
        venue = venue_for(venue, backend, one, kubeconfig=kubeconfig, context=context)
        try:
            venue.furnish(described, one, settings, devices=devices)
            spec = LabSpec(
                fleet=described.name,
                scheduler=one.name,
                kind=one.kind,
                options=dict(one.options),
                config=settings.engine,
                usage=settings.usage,
                adopt_default_scheduler=adopt_default_scheduler,
                devices=devices,
                opened=venue.cluster.now(),
            )
            return cls(venue, spec, observers, end=venue.close if own else venue.clear, described=described)
        except BaseException:
            if own:
                venue.close()
            raise

    @classmethod
    def resume(cls, path: str | Path, observers: Sequence[Observer] = (), *, read_only: bool = False) -> Lab:
        """The lab saved in a file. ``read_only``: it is not to be changed; so of an embedded one only what is asked for is taken
        in, which is quick however large it is. Raises StateError where there is none, or it is damaged; ConnectError where its
        cluster is a real one and does not answer."""
        file = saved.started(Path(path))
        with collection_paused(), file.damage_told():
            venue = provider_of(file.lab.place.backend).attach(file.lab.place, file.state, read_only)
            return cls(venue, file.lab.spec, observers, end=venue.leave, read_only=read_only, file=file)

    def save(self, path: str | Path) -> None:
        """Write the lab to a file, atomically: objects, time, and what was decided. (There is nothing to write of one whose cluster
        goes on by itself.) Raises StateError."""
        self.venue.save(Path(path), self._sections)

    def _sections(self) -> dict[str, Any]:
        lab = SavedLab(
            **structs.asdict(self.spec),
            cycle=self.log.cycle,
            evictions=self.log.evictions[-REMEMBERED:],
            last=self.log.last,
            changed=self._changed,
            place=self.venue.place or Place(backend=self.venue.backend),
        )
        return {"lab": msgspec.to_builtins(lab), "looks": parts_to_save(self.picture())}

    def close(self) -> None:
        """End the lab; its observers take the last look. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            self.observers.on_closing(lambda: self.picture().waiting())
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self.log.names.close()
        for part in self._running or ():
            part.close()
        self._end()

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def facts(self) -> dict[str, Any]:
        """What the lab is made of, as plain values."""
        from kailab.lab import record_facts

        return record_facts.made_of(self)

    # --- time ----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds since the epoch, on the cluster's clock."""
        return self.cluster.now()

    def settle(self, between: Callable[[], None] | None = None) -> None:
        """Until nothing changes any more, see kailab.lab.settle. ``between``: called each time that something was done. Raises NotSettled."""
        with collector_off():
            self._pace.settle(between)
        self._changed = False
        self.observers.on_step("settle", state=True)

    def settle_if_changed(self) -> None:
        """Settle if anything was done to the lab since it last did."""
        if self._changed:
            self.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass: run times end, protections run out, and the scheduler acts on it as it happens."""
        if seconds < 0:
            raise InputError(f"time goes forward only: {seconds:g} s")
        with collector_off():
            for _ in self.moments(seconds):
                pass

    def moments(self, seconds: float, *, before: bool = False, rested: bool = False) -> Iterator[bool]:
        """As ``advance``, stopping at each moment at which something may have changed. Time stays where iteration ends. ``before``: at the end, where time
        is virtual, neither controllers nor the scheduler have acted yet. True where all is done at this moment; ``rested``: go on from there."""
        begun = self.now
        try:
            yield from swept(self._pace.moments(seconds, before=before, rested=rested))
        finally:
            self._changed = True
            self.observers.on_step("advance", f"{self.now - begun:g} s", state=True, seconds=self.now - begun)

    # --- why -----------------------------------------------------------------------------------------------------

    def explain(self, kind: str, name: str, namespace: str = "default", *, everything: bool = False) -> Answer:
        """Why something is as it is, and what would let it run: a pod, a PodGroup, a workload or a queue. ``everything``: in a large
        lab, too, further steps are looked for where one was found. Raises NotFound, and InputError for what can't be explained."""
        from kailab.explain.asking import ask

        return ask(self, self.kind(kind), name, namespace, everything=everything)

    def explain_pod(self, name: str, namespace: str = "default") -> Answer:
        """Why a pod is where it is, is not, or is gone. Raises NotFound for one that never was."""
        return self.explain("Pod", name, namespace)

    def explain_podgroup(self, name: str, namespace: str = "default") -> Answer:
        """Why a PodGroup runs or waits. Raises NotFound."""
        return self.explain("PodGroup", name, namespace)

    def explain_workload(self, kind: str, name: str, namespace: str = "default") -> Answer:
        """Why a workload runs, waits or was evicted. Raises NotFound."""
        return self.explain(kind, name, namespace)

    def explain_queue(self, name: str) -> Answer:
        """A queue's share now, what it borrows and lends, who could reclaim it; and why work of it waits. Raises NotFound."""
        return self.explain("Queue", name)

    # --- what expectations are about -----------------------------------------------------------------------------

    def queue(self, name: str) -> Subject:
        """A queue, with all queues below it."""
        return subjects.queue(self, name)

    def app(self, name: str) -> Subject:
        """The pods labelled ``app``."""
        return subjects.app(self, name)

    def pod(self, name: str, namespace: str = "default") -> Subject:
        """One pod."""
        return subjects.pod(self, name, namespace)

    def podgroup(self, name: str, namespace: str = "default") -> Subject:
        """A PodGroup and its pods."""
        return subjects.podgroup(self, name, namespace)

    def job(self, name: str, namespace: str = "default") -> Subject:
        """The pods of a Job."""
        return subjects.workload(self, "Job", name, namespace)

    def deployment(self, name: str, namespace: str = "default") -> Subject:
        """A Deployment and its pods."""
        return subjects.workload(self, "Deployment", name, namespace)

    def workload(self, kind: str, name: str, namespace: str = "default") -> Subject:
        """The pods of a workload of any kind (``PyTorchJob``, ``RayCluster`` ...)."""
        return subjects.workload(self, self.kind(kind), name, namespace)

    def node(self, name: str) -> Subject:
        """The pods on a node."""
        return subjects.node(self, name)

    def noted_expectation(self, subject: str, expected: str, seen: str, held: bool) -> None:
        """An expectation was checked. Inside a temporal form only the form's own outcome is recorded."""
        if inside():
            self.last_expectation = expected
        else:
            self.observers.on_expectation(subject, expected, seen, held)

    # --- inside --------------------------------------------------------------------------------------------------

    def _origin(self) -> LabFacts:
        from kailab.lab import record_facts

        return record_facts.lab_facts(self)

    def _latest_changes(self) -> list[str]:
        last = self.log.last
        if last is None:
            return []
        self.log.names.refresh()
        of = self.log.names.of
        return [
            *(f"{evict.action} evicts from {of(evict.podgroup).name}" for evict in last.evictions),
            *(f"{bind.action} binds {of(bind.podgroup).name}" for bind in last.binds),
        ]
