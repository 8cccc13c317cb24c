"""The contract of a scheduler under test, which kailab's own, kube-scheduler, a real KAI and all others implement.

A scheduler is one class derived from ``SchedulerUnderTest``, with a row in ``kailab.undertest.registry``. It decides in this process
(``within``) or as processes of a plane (``beside``). Manifests are written for KAI; ``translate`` turns them into the objects that the
scheduler understands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from kailab.cluster.protocol import Cluster
from kailab.errors import InputError, KailabError
from kailab.model.callbacks import Tell
from kailab.model.labels import DEFAULT_SCHEDULER_NAME
from kailab.model.objects import Object
from kailab.version import __version__

if TYPE_CHECKING:
    from kailab.cluster.controlplane.supervision import ProcessStatus
    from kailab.components import ComponentSet
    from kailab.engine.config import EngineConfig
    from kailab.scheduler.observers import Observer
    from kailab.scheduler.scheduling_state import SchedulingState
    from kailab.scheduler.settings.config_file import SchedulerSettings
    from kailab.scheduler.usage import UsageParams


UNKNOWN_VERSION = "{name} unknown (it runs in a cluster that is somebody else's and does not report its version)"
PROCESS_QUIET_SECONDS = 2.5
OWED_SECONDS = 30.0


class SchedulerFailed(KailabError):
    """The scheduler under test has ended or did not start. The text has the last lines of its log."""

    exit_code = 1


class Unsupported(KailabError):
    """The scheduler under test does not support a setting. ``reason`` names the setting, ``who`` the scheduler."""

    def __init__(self, reason: str, who: str) -> None:
        self.reason = reason
        self.who = who
        super().__init__(f"{who} has no such setting: {reason}")

    # By default only the text is pickled, from which another process could not make the error again.
    def __reduce__(self) -> tuple[type[Unsupported], tuple[str, str]]:
        return Unsupported, (self.reason, self.who)


class NotExpressible(InputError):
    """The scheduler under test can't express what an object asks for. ``concept`` names the missing concept: ``limit``, ``tree of
    queues``."""

    def __init__(self, who: str, concept: str, about: str) -> None:
        self.who = who
        self.concept = concept
        self.about = about
        super().__init__(f"{about}: not expressible for {who}, which has no {concept}")

    def __reduce__(self) -> tuple[type[NotExpressible], tuple[str, str, str]]:
        return NotExpressible, (self.who, self.concept, self.about)


class EvictionCondition(NamedTuple):
    """The content of an evicted pod's condition. ``action``: its name in the decision log. ``beneficiary``: ``namespace/name`` of the
    PodGroup that gets the room, or "". ``queue``: the queue of the beneficiary if the condition names only that."""

    action: str
    beneficiary: str
    queue: str = ""


class EvictionReason(NamedTuple):
    """Why a pod was evicted. ``condition``: the parsed message; if None, ``SchedulerUnderTest.eviction`` parses it."""

    message: str
    condition: EvictionCondition | None = None


EvictionFinder = Callable[[Sequence[Object]], Mapping[str, EvictionReason]]
"""A function of changed pods that returns the evicted ones by UID. It may keep state between calls."""


class IdleDetector(Protocol):
    """Detects whether a scheduler in a process of its own has finished deciding."""

    def changed(self) -> None:
        """Record that something in the cluster has changed."""

    def is_idle(self) -> bool:
        """True if the scheduler has seen all changes and is not carrying anything out. Raises SchedulerFailed if it has ended."""


class SteppedPart(Protocol):
    """A part in this process that acts on the events of a watch."""

    def step(self) -> bool:
        """Act on new events. Returns True if anything was written."""

    def close(self) -> None: ...


@runtime_checkable
class ResumablePart(Protocol):
    """A part with state that the objects of the cluster do not hold."""

    def carry_on(self, before: Any) -> None:
        """Copy the state of ``before``, a part of the same type over a cluster with the same objects. ``before`` is not changed."""


class Decider(SteppedPart, Protocol):
    @property
    def wake_at(self) -> float | None:
        """When to step it again without a change, in seconds since the epoch; None: never."""


class PresentSource(Protocol):
    """A source of the present state of queues and waiting work, as the engine computes it."""

    def scheduling_state(self, promised: tuple[str, ...] = ()) -> SchedulingState: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class SchedulerWiring:
    """The parts that a scheduler in this process gets. ``observer`` is notified of what happens. ``live``: the cluster is a real API
    server. ``node_pool``: objects of other pools are ignored, as in KAI's shards."""

    cluster: Cluster
    config: EngineConfig
    usage: UsageParams
    adopt_default_scheduler: bool
    observer: Observer
    live: bool
    node_pool: str = "default"


@dataclass(frozen=True)
class InProcessScheduler:
    """A scheduler in this process. ``controllers`` belong to it and are stepped before it. ``reports_cycles``: it notifies the observer of
    each cycle; the decisions of other schedulers are derived from the cluster. ``onlooker`` None: the lab makes one. ``retry_at``: when it
    retries something that failed since a given time and that a lab should wait for; None: nothing."""

    decider: Decider
    controllers: Sequence[SteppedPart] = ()
    reports_cycles: bool = False
    onlooker: PresentSource | None = None
    retry_at: Callable[[float], float | None] = lambda since: None


@dataclass(frozen=True)
class StartSettings:
    """The settings that a scheduler starts with. ``file``: the file they were read from, if any."""

    settings: SchedulerSettings
    file: Path | None = None
    adopt_default_scheduler: bool = False


class Plane(Protocol):
    """A cluster whose processes kailab supervises, as schedulers use it: see ``kailab.cluster.controlplane.supervision``."""

    folder: Path

    @property
    def own(self) -> Collection[str]:
        """Names of the processes of the plane itself."""

    @property
    def kubeconfig(self) -> Path: ...

    def spawn(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None, port: int = 0
    ) -> ProcessStatus: ...

    def processes(self) -> list[ProcessStatus]: ...

    def log(self, name: str) -> Path: ...

    def stop(self, name: str) -> None: ...

    def start_kube_scheduler(self) -> None:
        """Start the default scheduler of the cluster, and return when it works."""


@runtime_checkable
class TakesImages(Protocol):
    """A plane that can load images into its nodes."""

    def load_images(self, archives: Sequence[Path]) -> None:
        """Load images from archives in the format of ``docker save``. Raises ConnectError."""


class SchedulerProcesses(ABC):
    """A scheduler under test as processes beside one plane. The plane knows which processes run; this object has no state of its own, so
    another command can make it again. The processes end by ``stop``, or with the plane."""

    def prepare(self, cluster: Cluster) -> None:
        """Apply the CRDs that the scheduler brings. Idempotent. Raises SchedulerFailed."""
        return

    @abstractmethod
    def start(self, cluster: Cluster, start: StartSettings, tell: Tell = lambda _: None) -> None:
        """Start the scheduler, and return when it works. ``tell`` receives messages for the user. Raises Unsupported for settings that it
        does not have, InputError, SchedulerFailed; then none of its processes is left running."""

    @abstractmethod
    def check(self) -> None:
        """Raises SchedulerFailed with the last lines of its log if a process has ended."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the running processes. Another scheduler may decide in the cluster afterwards."""

    def end(self) -> None:
        """Stop for good: no further lab uses the plane."""
        self.stop()

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The names of its processes in the plane."""

    @abstractmethod
    def version(self) -> str:
        """Name and version for evidence; ``unknown`` and the reason if the version is not known."""

    def ignored_words(self, objects: Sequence[Object]) -> Sequence[str]:
        """Labels and fields of these objects that were introduced after its release and that it ignores, each once."""
        return ()

    def idle_detector(self, cluster: Cluster) -> IdleDetector | None:
        """The idle detector of the scheduler. None: there is none, and a lab waits until nothing changes."""
        return None

    @property
    def decisions(self) -> Path | None:
        """The file with its decisions (``kailab.evidence.decision_file``). None: decisions are derived from the cluster's objects."""
        return None

    @property
    def url(self) -> str | None:
        """The URL of its health endpoint and kailab's metrics; None if there is none or it is not known yet."""
        return None


@dataclass(frozen=True)
class SchedulerUnderTest(ABC):
    """A scheduler under test as the user chose it: a value that is equal for equal choices. ``kind``: its name in the registry.
    ``name``: the name for users, that of its kind or one from a file of names. ``options``: the given options, by the names in its
    registry row."""

    kind: str
    name: str
    options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)

    title: ClassVar[str]
    """Its name in messages."""
    scheduler_name: ClassVar[str]
    """The ``schedulerName`` of the pods that it places."""
    understands_kai: ClassVar[bool] = False
    """True if it understands KAI's objects (queues, gangs, priorities) as KAI does, without translation."""
    knows_queues: ClassVar[bool] = False
    """True if it enforces the quota of KAI's Queues, so that waiting work is explained by KAI's rules. For other schedulers, explanations
    quote the conditions in the cluster."""
    reports_shares: ClassVar[bool] = False
    """True if it reports each queue's fair share and the serving order."""
    has_default: ClassVar[bool] = False
    """True if a default scheduler runs in the same cluster and places pods that name no scheduler."""
    sets_conditions: ClassVar[bool] = False
    """True if it sets a condition on each unbound pod that names it and has no scheduling gate, so that a lab waits for it."""
    waits_without_pods: ClassVar[bool] = False
    """True if waiting work may have no pods yet, such as a Job that is suspended until it is admitted. Expectations then check running
    pods exactly, and waiting pods as an upper bound."""
    writes: ClassVar[tuple[str, ...]] = ()
    """Kinds in which it records its progress: on a real cluster, a change of such an object counts as activity, like one of a pod."""
    prerequisite_kinds: ClassVar[tuple[str, ...]] = ()
    """Kinds of its own that it must have read before it sees work that depends on them: see ``await_prerequisites``."""
    one_per_machine: ClassVar[bool] = False
    """True if a machine can run only one at a time, for example because of a port that is fixed in its code. Callers that start several
    wait."""
    restart_for_each_lab: ClassVar[bool] = False
    """True if it has to be restarted for each lab, because it remembers deleted work by name for a while."""
    always_in_process: ClassVar[bool] = False
    """True if it decides in the test process on a real cluster as well, where other schedulers are processes."""
    quiet_seconds: ClassVar[float] = PROCESS_QUIET_SECONDS
    """Seconds without a change on a real cluster after which it counts as idle if it has no idle detector."""
    give_up_seconds: ClassVar[float] = OWED_SECONDS
    """Seconds without a change on a real cluster after which a lab stops waiting for expected changes."""

    def option(self, name: str) -> Any:
        """The value of an option, or None if it was not given."""
        return dict(self.options).get(name)

    def scheduler_names(self, adopt_default_scheduler: bool) -> tuple[str, ...]:
        """The values of ``schedulerName`` whose pods it places."""
        names = (self.scheduler_name, DEFAULT_SCHEDULER_NAME) if adopt_default_scheduler else (self.scheduler_name,)
        # Once, if it is the default scheduler itself.
        return tuple(dict.fromkeys(names))

    # --- objects -----------------------------------------------------------------------------------------------------

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        """Translate KAI's objects: for each object the objects to apply in its place, in order; possibly none. ``there``: the cluster that
        they will be applied to, for translations that depend on other objects. The given objects are not changed. Raises
        NotExpressible, naming the object and the concept."""
        return [(obj,) for obj in objects]

    def await_prerequisites(self, there: Cluster) -> None:
        """Return when it has read all objects of ``prerequisite_kinds``, or after a time limit."""
        return

    def space_of(self, kind: str, name: str, namespace: str, there: Cluster) -> str:
        """The namespace of a translated object whose manifest has ``namespace``. It differs if ``translate`` moved the object."""
        return namespace

    # --- where it runs -----------------------------------------------------------------------------------------------

    @property
    def installed(self) -> bool:
        """True if a chart installs it as pods of the cluster, so that it can also decide in a cluster that a kubeconfig names."""
        return False

    def within(self, wiring: SchedulerWiring) -> InProcessScheduler | None:
        """The scheduler in this process over a cluster; None if it does not run in this process there."""
        return None

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> SchedulerProcesses | None:
        """The scheduler as processes of a plane; None if it never is. ``programs``: the programs of the plane; None if the processes are
        only inspected and stopped. Raises InputError for unusable options."""
        return None

    @property
    def companion(self) -> SchedulerUnderTest | None:
        """A second scheduler in the same cluster, for pods with another ``schedulerName``, or None. It is started first."""
        return None

    def check_options(self) -> None:
        """Check the options before anything is started. Raises InputError, naming the file at fault."""
        return

    def version(self, live: bool) -> str:
        """Name and version if no process beside a plane reports them. ``live``: on a real API server."""
        return UNKNOWN_VERSION.format(name=self.name) if live else f"{self.name} (kailab {__version__})"

    # --- its decisions -----------------------------------------------------------------------------------------------

    def answers(self, pod: Object) -> bool:
        """True if the scheduler will set a condition on this unbound pod, so that a lab waits for it."""
        spec = pod["spec"]
        return (
            self.sets_conditions
            and spec.get("schedulerName") == self.scheduler_name
            and not spec.get("schedulingGates")
        )

    def stopped(self, there: Cluster) -> EvictionFinder | None:
        """A function that finds why pods were evicted, for schedulers that do not set the condition DisruptionTarget before they delete a
        pod, as KAI's default evictor and kube-scheduler's preemption do. None: there is no other source."""
        return None

    def eviction(self, message: str) -> EvictionCondition | None:
        """Parse the message of an evicted pod's condition; None if it has neither action nor beneficiary."""
        return None

    def code(self, message: str) -> str:
        """The reason code in the message of a waiting pod, or ""."""
        return ""
