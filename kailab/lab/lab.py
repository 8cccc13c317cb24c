"""A lab: one cluster, one fleet and one scheduler under test, with a life.

    with Lab.open("lesson") as lab:
        lab.apply("queues.yaml", "trainer.yaml")
        expect(lab.queue("team-a")).running(gpus=16)
        print(lab.explain_queue("team-a"))

With ``scheduler="kube-scheduler"`` the same manifests run under the baseline: ``schedulerName: kai-scheduler``
is replaced in pods and pod templates as they are applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from kailab.cluster.embedded.storage.persistence import collection_paused
from kailab.cluster.protocol import Object
from kailab.engine.records import GPU
from kailab.errors import ApiError, InputError, InputErrors, NotFound
from kailab.evidence.decision_log import DecisionLog, Names
from kailab.evidence.entries import Decision
from kailab.lab import saved, subjects
from kailab.lab.explain import explain
from kailab.lab.explain.explanation import Explanation
from kailab.lab.garbage import collector_off
from kailab.lab.picture import Picture
from kailab.lab.saved import LabFile, SavedLab
from kailab.lab.saved_picture import SavedParts, SavedPicture, parts_to_save
from kailab.lab.spec import LabSpec
from kailab.lab.subjects import Subject
from kailab.lab.venues import Telling, Venue, provider_of, venue_for
from kailab.lab.watching import inside
from kailab.model import kinds
from kailab.scheduler.reading.accounts import Accounts
from kailab.undertest.compatibility import check_lab
from kailab.undertest.contract import SchedulerUnderTest
from kailab.undertest.naming import chosen

# A look at a lab, as most commands are, needs no engine, no manifests and no YAML: what does is imported where it is used.
if TYPE_CHECKING:
    from kailab.engine.config import EngineConfig
    from kailab.evidence.recorder import Recorder
    from kailab.fleet import Fleet
    from kailab.lab.assembly import Parts
    from kailab.lab.intake import Applied, Source
    from kailab.lab.settle import Settling
    from kailab.scheduler import SchedulerSettings, UsageParams
    from kailab.scheduler.cycle_record import CycleRecord
    from kailab.scheduler.present import Present

REMEMBERED = 5000  # evictions kept in a saved lab


class Lab:
    """Made by ``open`` or ``resume``. ``venue``: where it lives; ``opened``: when it began, on the clock of ``cluster``."""

    def __init__(
        self,
        venue: Venue,
        spec: LabSpec,
        recorder: Recorder | None = None,
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
        self.recorder = recorder
        self.base: Path | None = None  # relative manifest paths are seen from here
        self.last_expectation = ""
        self.log = DecisionLog(Names(self.cluster, at_once=not read_only), self.opened, keep_all=recorder is not None)
        self._end = end
        self._saved_parts: SavedParts = {}
        self._running: tuple[Parts, Settling] | None = None
        if not read_only:
            self._running = self._run()
        self._changed = True
        self._closed = False
        if file is not None:
            self._remember(file, read_only)
        if recorder is not None:
            if recorder.facts is not None:
                recorder.go_on(self.cluster)
            else:
                self._begin_record(recorder, described)

    def _begin_record(self, recorder: Recorder, described: Fleet | None) -> None:
        from kailab.fleet import definition
        from kailab.lab import record_facts

        fleet = None if described is None else definition(described)
        recorder.open(self.cluster, record_facts.told(self), self.opened, fleet)

    def _remember(self, file: LabFile, read_only: bool) -> None:
        lab = file.lab
        self.log.cycle, self.log.evictions, self.log.last = lab.cycle, lab.evictions, lab.last
        self._changed = lab.changed
        if read_only:
            self._saved_parts = file.state.get("looks", {})

    @property
    def fleet(self) -> str:
        return self.spec.fleet

    @property
    def backend(self) -> str:
        return self.venue.backend

    @property
    def scheduler(self) -> str:
        return self.spec.scheduler

    @cached_property
    def under_test(self) -> SchedulerUnderTest:
        """What decides."""
        return self.spec.under_test

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
            self._running = self._run()
        return self._running

    def _run(self) -> tuple[Parts, Settling]:
        parts, pace = self.venue.run(self.spec, Telling(self._on_cycle, self._on_seen, self._describe))
        if self.recorder is not None:
            parts.follow_records()
        return parts, pace

    # --- life ----------------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        fleet: str | Path | Fleet = "lesson",
        backend: str = "embedded",
        scheduler: str = "kailab",
        config: EngineConfig | SchedulerSettings | Mapping[str, Any] | str | Path | None = None,
        recorder: Recorder | None = None,
        adopt_default_scheduler: bool = False,
        *,
        venue: Venue | None = None,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        devices: bool = False,
    ) -> Lab:
        """A new lab. ``fleet``: the name of one of kailab's, a file, or a Fleet. ``config``: how the scheduler is to decide,
        as a file of KAI's scheduler configuration, its content, or settings read from it. Raises InputError, ConnectError.

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
        one = chosen(scheduler)
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
            return cls(venue, spec, recorder, end=venue.close if own else venue.clear, described=described)
        except BaseException:
            if own:
                venue.close()
            raise

    @classmethod
    def resume(cls, path: str | Path, recorder: Recorder | None = None, *, read_only: bool = False) -> Lab:
        """The lab saved in a file. ``read_only``: it is not to be changed; so of an embedded one only what is asked for is taken
        in, which is quick however large it is. Raises StateError where there is none, or it is damaged; ConnectError where its
        cluster is a real one and does not answer."""
        file = saved.read(Path(path))
        with collection_paused(), file.damage_told():
            venue = provider_of(file.lab.place.backend).attach(file.lab.place, file.state, read_only)
            return cls(venue, file.lab.spec, recorder, end=venue.leave, read_only=read_only, file=file)

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
        )
        return {"lab": msgspec.to_builtins(lab), "looks": parts_to_save(self.picture())}

    def close(self) -> None:
        """End the lab; its record takes the last look. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            if self.recorder is not None:
                self.recorder.close(self.picture().waiting())
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
        nodes = self.cluster.list("Node")
        accounts = Accounts(self.cluster, (), {})
        gpus = sum(accounts.offered(node) for node in nodes) // GPU
        return {
            "fleet": self.fleet,
            "backend": self.backend,
            "scheduler": self.scheduler,
            **({"kubernetes": self.kubernetes} if self.kubernetes else {}),
            "config": msgspec.to_builtins(self.config),
            **({"adopt_default_scheduler": True} if self.adopt_default_scheduler else {}),
            **({"devices": True} if self.devices else {}),
            "nodes": len(nodes),
            "gpus": gpus,
        }

    # --- what is done to it --------------------------------------------------------------------------------------

    def apply(self, *sources: Source, namespace: str = "default", strict: bool = False) -> Applied:
        """Apply manifests: paths (files, folders, ``-``), YAML text, objects or lists of them.

        All are checked first, together with what the lab holds; if anything is wrong nothing is applied. ``strict``
        also refuses what KAI would take and never run (a gang larger than its Job). Raises InputError or InputErrors."""
        from kailab.lab import advice, intake
        from kailab.lab.intake import Applied

        seen: list[str | Object] = []
        try:
            with collector_off():
                read = intake.read(sources, self.base, namespace, seen)
                impossible = intake.impossible_gangs(read.manifests) if strict else []
                if impossible:
                    raise impossible[0] if len(impossible) == 1 else InputErrors(impossible)
                warnings = intake.check(self.cluster, read.manifests, namespace)
                if self.under_test.speaks_kai:
                    adopted, alone = self.adopt_default_scheduler, self.venue.exclusive
                    warnings += advice.under_kai(self.cluster, read.manifests, namespace, adopted, alone)
                manifests = intake.translated(read.manifests, self.under_test, self.cluster)
                applied = Applied(intake.apply_all(self.cluster, manifests, namespace), warnings)
        except InputError:
            if self.recorder is not None:
                self.recorder.refused(seen)
            raise
        self._changed = True
        if self.recorder is not None:
            kept = tuple(self.recorder.manifest(name, objects) for name, objects in read.parts)
            said = f"{', '.join(name for name, _ in read.parts)}: {applied.told()}"
            self.recorder.step(
                "apply",
                said,
                manifests=kept,
                namespace=namespace,
                changes=tuple(map(str, applied.changes)),
                warnings=tuple(warnings),
            )
        return applied

    def dry_run(self) -> None:
        """Have a real API server only say what it would do, from now on. A lab in this process is tried on as it is: its
        changes are nobody's before they are saved."""
        self.venue.dry_run()

    def delete(self, kind: str | Path, name: str | None = None, namespace: str = "default") -> Applied:
        """Delete one object, or (with a path or YAML text alone) every object of manifests. Raises InputError if one
        is not there; then none is deleted."""
        from kailab.lab import intake
        from kailab.lab.intake import Applied, Change

        doomed: list[tuple[str, str, str]] = []
        if name is None:
            for one in intake.read([kind], self.base, namespace).manifests:
                spaced = kinds.is_namespaced(one.kind, one.object)
                space = one.object["metadata"].get("namespace") or namespace if spaced else ""
                doomed.append((one.kind, one.object["metadata"].get("name", ""), space))
        else:
            key = self.kind(str(kind))
            doomed.append((key, name, self.space_of(key, name, namespace) or ""))
        for key, target, space in doomed:
            self._existing(key, target, space)
        for key, target, space in doomed:
            try:
                self.cluster.delete(key, target, space or None)
            except NotFound:  # it went with an owner deleted before it
                continue
            except ApiError as error:
                raise InputError(str(error)) from error
        changes = [Change(key, space, target, "deleted") for key, target, space in doomed]
        self._step("delete", ", ".join(str(change) for change in changes), objects=tuple(doomed))
        return Applied(changes)

    def scale(self, kind: str, name: str, replicas: int, namespace: str = "default") -> None:
        """Set ``spec.replicas``. Raises InputError for kinds that have none, objects that are not there, and counts
        below 0."""
        key = self.kind(kind)
        scalable = [known.key for known in kinds.KINDS.values() if known.scalable]
        if key not in scalable:
            raise InputError(f"{key} can't be scaled; expected one of: {', '.join(scalable)}")
        if replicas < 0:
            raise InputError(f"replicas must be 0 or more, not {replicas}")
        self._existing(key, name, namespace)
        try:
            self.cluster.patch(key, name, namespace, {"spec": {"replicas": replicas}})
        except ApiError as error:
            raise InputError(str(error)) from error
        self._step("scale", f"{key}/{name} to {replicas}", kind=key, name=name, namespace=namespace, replicas=replicas)

    def patch(self, kind: str, name: str, patch: dict[str, Any], namespace: str = "default") -> Object:
        """JSON merge patch of an object. Raises InputError."""
        key = self.kind(kind)
        space = self.space_of(key, name, namespace)
        self._existing(key, name, space or "")
        try:
            patched = self.cluster.patch(key, name, space, patch)
        except ApiError as error:
            if self.recorder is not None:
                self.recorder.refused([patch])
            raise InputError(str(error)) from error
        self._step("patch", f"{key}/{name}", kind=key, name=name, namespace=namespace, patch=patch)
        return patched

    # --- time ----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds since the epoch, on the cluster's clock."""
        return self.cluster.now()

    def settle(self) -> None:
        """Until nothing changes any more, see kailab.lab.settle. Raises NotSettled."""
        with collector_off():
            self._pace.settle()
        self._changed = False
        if self.recorder is not None:
            self.recorder.step("settle", state=True)

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

    def moments(self, seconds: float) -> Iterator[None]:
        """As ``advance``, stopping at each moment at which something may have changed. Time stays where iteration
        ends."""
        begun = self.now
        try:
            yield from self._pace.moments(seconds)
        finally:
            self._changed = True
            if self.recorder is not None:
                self.recorder.step("advance", f"{self.now - begun:g} s", state=True, seconds=self.now - begun)

    # --- looking -------------------------------------------------------------------------------------------------

    def get(self, kind: str, name: str | None = None, namespace: str | None = "default") -> Any:
        """One object, or without a name all of a kind (namespace None: of all namespaces). Read-only. Raises
        InputError for an unknown kind, NotFound."""
        key = self.kind(kind)
        if name is not None:
            return self.cluster.get(key, name, self.space_of(key, name, namespace))
        return self.cluster.list(key, namespace if kinds.is_namespaced(key) else None)

    def space_of(self, kind: str, name: str, namespace: str | None) -> str | None:
        """The namespace to look for an object in, None for outside of namespaces. Kinds that kailab does not know (by
        their kind key) may have objects in both."""
        if kind in kinds.KINDS:
            return namespace if kinds.is_namespaced(kind) else None
        try:
            self.cluster.get(kind, name, namespace)
        except NotFound:
            return None
        return namespace

    def kind(self, text: str) -> str:
        """The kind key for a kind as people type it (``po``, ``queues``, ``Job``). Raises InputError."""
        return kinds.resolve(text, self.cluster.kinds())

    def picture(self) -> Picture:
        """How things stand, joined with what was decided."""
        if (decided := self.venue.decided(self.under_test)) is not None:
            self.log.cycle, self.log.last = decided.cycle, decided.last
            # Those from before this lab was begun anew on the same file are another's.
            shift = decided.opened - self.opened
            self.log.evictions = [structs.replace(entry, t=entry.t + shift) for entry in decided.evictions]
        if self._saved_parts:
            return SavedPicture(self._saved_parts, self.cluster, self.log, self._present, self.under_test)
        return Picture(self.cluster, self.log, self._present, self.under_test)

    def _present(self, promised: tuple[str, ...]) -> Present:
        return self._parts.onlooker.present(promised)

    def explain(self, kind: str, name: str, namespace: str = "default") -> list[Explanation]:
        """Why something is as it is: a pod, a PodGroup, a queue, or each PodGroup of a workload. Raises NotFound, and InputError for
        what can't be explained."""
        return explain(self, self.kind(kind), name, namespace)

    def explain_pod(self, name: str, namespace: str = "default") -> Explanation:
        """Why a pod is where it is, or is not. Raises NotFound."""
        return self.explain("Pod", name, namespace)[0]

    def explain_podgroup(self, name: str, namespace: str = "default") -> Explanation:
        """Why a PodGroup runs or waits. Raises NotFound."""
        return self.explain("PodGroup", name, namespace)[0]

    def explain_workload(self, kind: str, name: str, namespace: str = "default") -> list[Explanation]:
        """Each PodGroup of a workload, or each pod where it has none. Raises InputError where nothing of it is there."""
        return self.explain(kind, name, namespace)

    def explain_queue(self, name: str) -> Explanation:
        """A queue's share now, what it borrows and lends, who could reclaim it. Raises NotFound."""
        return self.explain("Queue", name)[0]

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
        elif self.recorder is not None and self.recorder.is_open:
            self.recorder.expectation(subject, expected, seen, held)

    # --- inside --------------------------------------------------------------------------------------------------

    def _existing(self, kind: str, name: str, namespace: str) -> Object:
        try:
            return self.cluster.get(kind, name, namespace or None)
        except NotFound as error:
            raise InputError(str(error)) from error

    def _step(self, operation: str, text: str, **detail: Any) -> None:
        self._changed = True
        if self.recorder is not None:
            self.recorder.step(operation, text, **detail)

    def _on_cycle(self, record: CycleRecord) -> None:
        entries = self.log.take(record.decisions, record.failures)
        if self.recorder is not None:
            self.recorder.cycle(entries, record, self.log.cycle)

    def _on_seen(self, entries: list[Decision]) -> None:
        self.log.observe(entries)
        if self.recorder is not None:
            self.recorder.cycle(entries)

    def _describe(self) -> list[str]:
        last = self.log.last
        if last is None:
            return []
        self.log.names.refresh()
        of = self.log.names.of
        return [
            *(f"{evict.action} evicts from {of(evict.podgroup).name}" for evict in last.evictions),
            *(f"{bind.action} binds {of(bind.podgroup).name}" for bind in last.binds),
        ]
