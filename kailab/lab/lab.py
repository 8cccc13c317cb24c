"""A lab: one cluster, one fleet and one scheduler under test.

    with Lab.open("lesson") as lab:
        lab.apply("queues.yaml", "trainer.yaml")
        expect(lab.queue("team-a")).running(gpus=16)
        print(lab.explain_queue("team-a"))

``Lab`` has the public methods. Longer ones call functions and objects of the modules beside this one: ``operations`` (apply, delete,
scale, patch), ``pictures`` (the state as tables and explanations see it), ``settle`` (time),
``subjects`` (what expectations are about), ``cluster_copies`` (forks) and ``frames``. They know a lab as ``open_lab.OpenLab``.

With ``scheduler="kube-scheduler"`` the same manifests run under the baseline: ``schedulerName: kai-scheduler``
is replaced in pods and pod templates as they are applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import structs

from kailab.cluster.embedded.storage.state_file import collection_paused
from kailab.cluster.protocol import Object
from kailab.cluster.writes import Subresource
from kailab.errors import InputError, NotFound
from kailab.evidence.decision_log import DecisionLog, NameIndex
from kailab.evidence.entries import ClusterState
from kailab.lab import saved, subjects
from kailab.lab.garbage import collect_regularly, collector_off
from kailab.lab.open_lab import LabActivity
from kailab.lab.picture import Picture
from kailab.lab.pictures import LabPictures, parts_to_save
from kailab.lab.saved import LabFile, SavedLab
from kailab.lab.seen_names import SeenNames
from kailab.lab.spec import LabSpec, fleet_of
from kailab.lab.subjects import Subject
from kailab.lab.temporal import in_temporal_form
from kailab.lab.venues import Place, Venue, provider_of, venue_for
from kailab.model import kinds
from kailab.scheduler.observers import LabOpening, Observer, Observers
from kailab.undertest.contract import SchedulerUnderTest, SteppedPart
from kailab.undertest.selection import check_lab, choose_scheduler

# Most commands only show a lab, which needs no engine, no manifests and no YAML: those modules are imported where they are used.
if TYPE_CHECKING:
    from pandas import DataFrame

    from kailab.cluster.embedded.storage.store import Reference
    from kailab.engine.config import EngineConfig
    from kailab.evidence.entries import LabFacts
    from kailab.fleet.fleet import Fleet
    from kailab.lab.answer import Answer
    from kailab.lab.intake import Applied, Source
    from kailab.lab.node_changes import FailedReadyStatus
    from kailab.lab.parts import Parts
    from kailab.lab.settle import Settling
    from kailab.lab.unknown_fields import Validation
    from kailab.scheduler.scheduling_state import SchedulingState
    from kailab.scheduler.settings.config_file import SchedulerSettings
    from kailab.scheduler.usage import UsageParams

SAVED_EVICTIONS = 5000


class Lab:
    """A lab, made by ``open`` or ``resume``. ``venue``: where its cluster is; ``opened``: when it was opened, on the clock of ``cluster``;
    ``base``: the folder that relative paths of manifests start from."""

    shares_pictures = False
    """True: all callers share one picture until the cluster changes. The lab keeps that picture until then."""

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
        self.base: Path | None = None
        self.arrivals_apart = False
        """Whether ``apply`` settles the lab if something was applied since it last settled. True in the labs of tests."""
        self.last_expectation = ""
        self.observers = Observers(observers)
        names = NameIndex(self.cluster, at_once=not read_only)
        self.log = DecisionLog(names, self.opened, self.observers.wants_decisions, self.observers)
        self.seen_names = SeenNames()
        self.observers.add(self.log, self.seen_names)
        self._activity = LabActivity(self.observers)
        self._end = end
        self._closed = False
        self._running: tuple[Parts, Settling] | None = None
        if not read_only:
            self._run()
        if file is not None:
            self.log.cycle, self.log.evictions, self.log.last = file.lab.cycle, file.lab.evictions, file.lab.last
            self._activity.unsettled = file.lab.changed
        saved_parts = file.state.get("looks", {}) if file is not None and read_only else {}
        self._pictures = LabPictures(self, self._present, saved_parts)
        definition = None
        if described is not None:
            from kailab.fleet.fleet import fleet_definition

            definition = fleet_definition(described)
        self.observers.on_opened(LabOpening(self.cluster, self.opened, self._origin, definition))

    def carry_on(self, before: Lab) -> None:
        """Take over the state of a lab with the same objects: its decisions, promises and refused binds. See ``kailab.lab.cluster_copies``."""
        self.base, self._activity.unsettled = before.base, before._activity.unsettled
        self.log.carry_on(before.log)
        self.seen_names.carry_on(before.seen_names)
        if before._running is not None:
            self._parts.carry_on(before._parts)
        # The other lab's controllers have read these objects. The controllers here read them now, so that both act only on later changes.
        for controller in self._parts.controllers:
            controller.step()

    @property
    def fleet(self) -> str:
        return self.spec.fleet

    @property
    def scheduler(self) -> str:
        return self.spec.scheduler

    @cached_property
    def under_test(self) -> SchedulerUnderTest:
        """The scheduler under test."""
        return self.spec.under_test

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
        """Open a new lab. ``fleet``: the name of a fleet, a file, or a Fleet. ``config``: the scheduler's configuration, as a file of KAI's
        scheduler configuration, its content, or settings read from it. ``observers``: get each step of the lab, as a Recorder of
        kailab.evidence does. Raises InputError, also for options that the backend or the scheduler does not understand; ConnectError.

        On a real API server (a backend other than embedded) the lab lives in ``venue``, and leaves it empty for the next lab. Without one the
        lab makes its own venue, a control plane or the cluster of a ``kubeconfig``, and closes it at its end. ``devices``: the fleet's GPUs
        are published for resource claims (DRA), not by the device plugin.

        ``adopt_default_scheduler``: the scheduler under test also places pods that name no scheduler, as in a cluster in which it has replaced
        kube-scheduler. Otherwise no scheduler places them. (The baseline always places them.)
        """
        from kailab.scheduler.settings.config_file import settings_of

        given = {
            "config": config,
            "adopt_default_scheduler": adopt_default_scheduler,
            "devices": devices,
            "venue": venue,
        }
        check_lab(backend, scheduler, {**given, "kubeconfig": kubeconfig, "context": context}, spelt=str)
        under_test = choose_scheduler(scheduler)
        settings = settings_of(under_test.option("config") if config is None else config)
        described = fleet_of(fleet)
        own = venue is None
        venue = venue_for(venue, backend, under_test, kubeconfig=kubeconfig, context=context)
        try:
            venue.furnish(described, under_test, settings, devices=devices)
            spec = LabSpec(
                fleet=described.name,
                scheduler=under_test.name,
                kind=under_test.kind,
                options=dict(under_test.options),
                config=settings.engine,
                usage=settings.usage,
                node_pool=settings.node_pool,
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
        """Open the lab saved in a file. ``read_only``: refuse changes. A read-only embedded lab unpacks only the parts that are
        used, so it opens quickly at any size. Raises StateError if the file is missing or damaged, and ConnectError if the lab's
        cluster is a real one and does not answer."""
        file = saved.read_started(Path(path))
        with collection_paused(), file.report_damage():
            venue = provider_of(file.lab.place.backend).attach(file.lab.place, file.state, read_only)
            return cls(venue, file.lab.spec, observers, end=venue.leave, read_only=read_only, file=file)

    def save(self, path: str | Path) -> None:
        """Write the lab to a file, atomically: objects, time and decisions. For a lab on a real cluster this
        writes nothing, because the cluster keeps the lab. Raises StateError."""
        self.venue.save(Path(path), self._sections)

    def _sections(self) -> dict[str, Any]:
        lab = SavedLab(
            **structs.asdict(self.spec),
            cycle=self.log.cycle,
            evictions=self.log.evictions[-SAVED_EVICTIONS:],
            last=self.log.last,
            changed=self._activity.unsettled,
            place=self.venue.place or Place(backend=self.venue.backend),
        )
        return {"lab": msgspec.to_builtins(lab), "looks": parts_to_save(self.picture())}

    def close(self) -> None:
        """End the lab, after its observers have recorded its last state. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            self.observers.on_closing(lambda: self.picture().waiting())
        finally:
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
        """The lab's settings and the size of its fleet, as plain values."""
        from kailab.lab import record_facts

        return record_facts.describe_lab(self)

    # --- objects -------------------------------------------------------------------------------------------------

    def get(self, kind: str, name: str | None = None, namespace: str | None = "default") -> Any:
        """Return one object, or without a name all of a kind (``namespace`` None: of all namespaces). They are read-only. Raises
        InputError for an unknown kind, NotFound."""
        key = self.kind(kind)
        if name is not None:
            return self.cluster.get(key, name, self.space_of(key, name, namespace))
        return self.cluster.list(key, namespace if kinds.is_namespaced(key) else None)

    def kind(self, text: str) -> str:
        """The kind key for a kind in any spelling that kubectl accepts (``po``, ``queues``, ``Job``). Raises InputError."""
        return kinds.resolve(text, self.cluster.kinds())

    def space_of(self, kind: str, name: str, namespace: str | None) -> str | None:
        """The namespace in which to look up an object when a user gives ``namespace``; None for a cluster-wide object. ``kind`` is a
        kind key. A kind that kailab does not know may have objects in namespaces and outside of them."""
        if kind in kinds.KINDS:
            if not kinds.is_namespaced(kind) or namespace is None:
                return None
            return self.under_test.space_of(kind, name, namespace, self.cluster)
        try:
            self.cluster.get(kind, name, namespace)
        except NotFound:
            return None
        return namespace

    def apply(
        self,
        *sources: Source,
        namespace: str = "default",
        strict: bool = False,
        validate: Validation = "strict",
        together: bool = False,
    ) -> Applied:
        """Apply manifests: paths (files, folders, ``-``), YAML text, objects or lists of them.

        All objects are checked first, together with the lab's objects; if one is wrong none is applied. ``strict`` also refuses work
        that KAI would accept and never run (a gang larger than its Job). ``validate``: "strict" refuses fields that an API
        server does not know, "warn" reports them, "ignore" does neither. Raises InputError or InputErrors.

        In a test the lab settles between two calls, as if a user had typed two commands. ``together``: do not settle before this call, so
        that its objects arrive together with those of the call before. Other labs (``Lab.open``) settle only when ``settle`` is called."""
        from kailab.lab import operations

        if self.arrivals_apart and not together and self._activity.applied:
            self.settle()
        return operations.apply(self, self._activity, sources, namespace, strict, validate)

    def dry_run(self) -> None:
        """From now on a real API server only answers what it would do. An embedded lab changes as usual, but nobody else sees the
        changes until it is saved."""
        self.venue.dry_run()

    def delete(self, kind: str | Path, name: str | None = None, namespace: str = "default") -> Applied:
        """Delete one object, or (with a path or YAML text alone) every object of manifests. Raises InputError if one
        does not exist; then none is deleted."""
        from kailab.lab import operations

        return operations.delete(self, self._activity, kind, name, namespace)

    def scale(self, kind: str, name: str, replicas: int, namespace: str = "default") -> None:
        """Set ``spec.replicas``. Raises InputError for kinds that have none, objects that do not exist, and counts
        below 0."""
        from kailab.lab import operations

        operations.scale(self, self._activity, kind, name, replicas, namespace)

    def patch(
        self,
        kind: str,
        name: str,
        patch: dict[str, Any],
        namespace: str = "default",
        subresource: Subresource = "",
    ) -> Object:
        """Apply a JSON merge patch to an object: to all but its status, or to its status alone (``subresource``). Raises InputError."""
        from kailab.lab import operations

        return operations.patch(self, self._activity, kind, name, patch, namespace, subresource)

    def fail_node(self, name: str, ready: FailedReadyStatus = "Unknown") -> None:
        """Let a fake node fail. ``ready``: the new status of its Ready condition: Unknown (Kubernetes no longer hears
        from the node) or False (the kubelet reports that it can run nothing). Raises InputError for a node that is real or does not exist."""
        from kailab.lab.node_changes import fail_node

        fail_node(self, name, ready).do(self)

    def recover_node(self, name: str) -> None:
        """Bring a failed fake node back. Raises InputError for a node that is real or does not exist."""
        from kailab.lab.node_changes import recover_node

        recover_node(self, name).do(self)

    # --- state ---------------------------------------------------------------------------------------------------

    def picture(self, like: Picture | None = None) -> Picture:
        """The state of the lab, joined with the decisions so far. ``like``: a picture of the lab that this one was forked from; rows
        of pods that are the same there are taken from it."""
        return self._pictures.picture(like)

    def cluster_state(self) -> ClusterState:
        """The state of the whole cluster now, in rows."""
        return self._pictures.cluster_state()

    def fork(self, settings: SchedulerSettings | None = None, *, without: Iterable[Reference] = ()) -> Lab:
        """Return a copy in which anything can be tried (``kailab.lab.cluster_copies``). The caller closes it. This lab does not change.
        ``settings``: of the scheduler; None: those of this lab. ``without``: objects to leave out, with everything that only they own."""
        from kailab.lab.cluster_copies import copy_lab

        with collector_off():
            venue, spec = copy_lab(self.cluster, self.spec, settings, without)
            forked = type(self)(venue, spec, end=venue.close)
            forked.carry_on(self)
        return forked

    def table(self, what: Literal["pods", "podgroups", "queues", "nodes", "evictions"]) -> DataFrame:
        """As a table of pandas, with GPUs as numbers. Raises InputError if pandas is not installed (extra ``figures``)."""
        from kailab.lab import frames

        return frames.data_frame(self.picture(), what)

    def _repr_html_(self) -> str:
        from kailab.lab import frames

        return frames.lab_as_html(self)

    # --- time ----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds since the epoch, on the cluster's clock."""
        return self.cluster.now()

    def settle(self, between: Callable[[], None] | None = None) -> None:
        """Let controllers and scheduler work until nothing changes any more, see ``kailab.lab.settle``. ``between``: called each time
        that something was done. Raises NotSettled."""
        with collector_off():
            self._settling.settle(between)
        self._activity.report_settled()

    def settle_if_changed(self, between: Callable[[], None] | None = None) -> None:
        """Settle if anything was done to the lab since it last did. ``between``: see ``settle``."""
        if self._activity.unsettled:
            self.settle(between)

    def catch_up(self) -> bool:
        """Let the controllers of a lab that was just resumed read it now, not at the first change. Returns True if they wrote
        anything, which means that the lab had not settled. On a real cluster controllers are other processes, so this does nothing."""
        with collector_off():
            return self._settling.catch_up()

    def add_controller(self, controller: SteppedPart) -> None:
        """Step a further controller after those of the lab, so that it has acted before each scheduling cycle. Copies of the lab lack it.
        Its owner closes it."""
        self._settling.add_controller(controller)

    def advance(self, seconds: float) -> None:
        """Let time pass: run times end, protections run out, and the scheduler acts on it as it happens."""
        if seconds < 0:
            raise InputError(f"time goes forward only: {seconds:g} s")
        with collector_off():
            for _ in self.moments(seconds):
                pass

    def moments(self, seconds: float, *, before: bool = False, rested: bool = False) -> Iterator[bool]:
        """As ``advance``, but yield at each time at which something may have changed. The clock stays where the iteration stops. Yields
        True if controllers and scheduler have nothing left to do at that time. ``before``: with a virtual clock the timers of the last moment
        fire, but controllers and scheduler do not act on them. ``rested``: the lab already has nothing left to do at the start."""
        start = self.now
        try:
            yield from collect_regularly(self._settling.moments(seconds, before=before, rested=rested))
        finally:
            self._activity.report_advanced(self.now - start)

    # --- why -----------------------------------------------------------------------------------------------------

    def explain(
        self,
        kind: str,
        name: str,
        namespace: str = "default",
        *,
        everything: bool = False,
        tried: bool = True,
        picture: Picture | None = None,
        timeout: float | None = None,
        safe: bool = False,
        on_answer: Callable[[Answer], None] | None = None,
    ) -> Answer:
        """Why something is as it is, and what would let it run: a pod, a PodGroup, a workload or a queue. ``everything``: look for
        further steps after the first in a large lab too. ``tried``: False to look for no steps. ``picture``: of the lab, if
        the caller has one. ``timeout``: seconds of processor time after which no further step is tried; None: no limit. ``safe``: no step
        raises a priority, or withdraws or ends the work of others. ``on_answer``: called with the answer as it grows: with its cause before
        any step is tried, then with each step. The answer says in ``incomplete`` what was not tried. Raises NotFound, and InputError for
        what can't be explained."""
        if timeout is not None and not timeout >= 0:
            raise InputError(f"timeout: expected seconds (0 or more) or None, not {timeout:g}")
        # ``kailab.explain`` is a layer above this package. It is imported when somebody asks.
        from kailab.explain.questions import ask

        return ask(
            self,
            self.kind(kind),
            name,
            namespace,
            tried=tried,
            everything=everything,
            picture=picture,
            budget=timeout,
            safe=safe,
            on_answer=on_answer or (lambda answer: None),
        )

    def explain_pod(self, name: str, namespace: str = "default") -> Answer:
        """Why a pod runs on its node, waits, or is gone. Raises NotFound for a pod that never existed."""
        return self.explain("Pod", name, namespace)

    def explain_podgroup(self, name: str, namespace: str = "default") -> Answer:
        """Why a PodGroup runs or waits. Raises NotFound."""
        return self.explain("PodGroup", name, namespace)

    def explain_workload(self, kind: str, name: str, namespace: str = "default") -> Answer:
        """Why a workload runs, waits or was evicted. Raises NotFound."""
        return self.explain(kind, name, namespace)

    def explain_queue(self, name: str) -> Answer:
        """A queue's present share, what it borrows and lends, which queues could reclaim that, and why its work waits. Raises NotFound."""
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
        """Record an expectation that was checked. Inside a temporal form, record only the outcome of the form itself."""
        if in_temporal_form():
            self.last_expectation = expected
        else:
            self.observers.on_expectation(subject, expected, seen, held)

    # --- inside --------------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> Parts:
        return self._run()[0]

    @property
    def _settling(self) -> Settling:
        return self._run()[1]

    def _run(self) -> tuple[Parts, Settling]:
        """Start controllers and scheduler, once."""
        if self._running is None:
            self._running = self.venue.run(self.spec, self.observers, self._describe_last_decisions)
        return self._running

    def _present(self, promised: tuple[str, ...]) -> SchedulingState:
        return self._parts.onlooker.scheduling_state(promised)

    def _origin(self) -> LabFacts:
        from kailab.lab import record_facts

        return record_facts.lab_facts(self)

    def _describe_last_decisions(self) -> list[str]:
        last = self.log.last
        if last is None:
            return []
        self.log.names.refresh()
        of = self.log.names.of
        return [
            *(f"{evict.action} evicts from {of(evict.podgroup).name}" for evict in last.evictions),
            *(f"{bind.action} binds {of(bind.podgroup).name}" for bind in last.binds),
        ]
