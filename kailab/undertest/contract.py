"""What a scheduler under test is: the contract that kailab's own, kube-scheduler, a real KAI and any other keep.

Each is one class in a room of its own beside this module, with one row in ``kailab.undertest.registry``. Nothing else knows
which there are. The words of manifests are KAI's; ``translate`` says them in the words of the scheduler under test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from kailab import __version__
from kailab.cluster.protocol import Cluster, Object
from kailab.errors import InputError, KailabError

if TYPE_CHECKING:
    from kailab.cluster.controlplane.supervision import Process
    from kailab.components import ComponentSet
    from kailab.engine.config import EngineConfig
    from kailab.scheduler import SchedulerSettings, UsageParams
    from kailab.scheduler.observers import Observer
    from kailab.scheduler.present import Present

Tell = Callable[[str], None]

UNKNOWN_VERSION = "{name} unknown (it runs in a cluster that is somebody else's, and tells nobody its version)"
PROCESS_QUIET_SECONDS = 2.5
OWED_SECONDS = 30.0


class SchedulerFailed(KailabError):
    """The scheduler under test ended, or did not get to work. The text has the last words of the process."""

    exit_code = 1


class Unsupported(KailabError):
    """The scheduler under test has no such setting. ``reason`` names the setting, ``who`` the scheduler."""

    def __init__(self, reason: str, who: str) -> None:
        self.reason = reason
        self.who = who
        super().__init__(f"{who} has no such setting: {reason}")

    # Pickled as it is by default, with its text alone, it could not be made again in another process.
    def __reduce__(self) -> tuple[type[Unsupported], tuple[str, str]]:
        return Unsupported, (self.reason, self.who)


class NotExpressible(InputError):
    """An object says what the scheduler under test has no words for. ``concept``: what is missing, as ``limit`` or ``tree of
    queues``."""

    def __init__(self, who: str, concept: str, about: str) -> None:
        self.who = who
        self.concept = concept
        self.about = about
        super().__init__(f"{about}: not expressible for {who}, which has no {concept}")

    def __reduce__(self) -> tuple[type[NotExpressible], tuple[str, str, str]]:
        return NotExpressible, (self.who, self.concept, self.about)


class EvictionCondition(NamedTuple):
    """What the condition of an evicted pod says. ``action``: as the decision log names it; ``beneficiary``: ``namespace/name`` of
    the PodGroup that the room is made for, empty for none; ``queue``: whose it is, where that is said and no PodGroup."""

    action: str
    beneficiary: str
    queue: str = ""


class EvictionReason(NamedTuple):
    """Why a pod was evicted. ``told``: what that says; None: what ``SchedulerUnderTest.eviction`` reads in it."""

    message: str
    told: EvictionCondition | None = None


EvictionFinder = Callable[[Sequence[Object]], Mapping[str, EvictionReason]]
"""Pods that something has happened to -> by UID those of them that were evicted. It may remember from call to call."""


class IdleDetector(Protocol):
    """What tells of a scheduler in a process of its own whether it is done deciding."""

    def changed(self) -> None:
        """Something has changed in the cluster."""

    def is_idle(self) -> bool:
        """It has looked at everything since, and has nothing under way. Raises SchedulerFailed where it has ended."""


class SteppedPart(Protocol):
    """What acts in this process on what a watch delivered."""

    def step(self) -> bool:
        """Act; True if anything was written."""

    def close(self) -> None: ...


@runtime_checkable
class ResumablePart(Protocol):
    """A part that keeps more than the objects tell."""

    def carry_on(self, before: Any) -> None:
        """Remember what ``before`` remembers, one of the same type over a cluster with the same objects. It is not changed."""


class Decider(SteppedPart, Protocol):
    @property
    def wake_at(self) -> float | None:
        """When it wants to be stepped again though nothing has changed; None: never."""


class PresentSource(Protocol):
    """Who can tell how things stand, as the engine reckons."""

    def present(self, promised: tuple[str, ...] = ()) -> Present: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class SchedulerWiring:
    """What a scheduler that decides in this process is given. ``observer``: is to be told what happens. ``live``: the cluster is a
    real API server. ``node_pool``: as KAI's shards, what belongs to other pools is left out."""

    cluster: Cluster
    config: EngineConfig
    usage: UsageParams
    adopt_default_scheduler: bool
    observer: Observer
    live: bool
    node_pool: str = "default"


@dataclass(frozen=True)
class InProcessScheduler:
    """A scheduler in this process. ``controllers`` are stepped before it, and are its own. ``tells``: it tells the observer each
    cycle; what others decide is read off the cluster. ``onlooker`` None: the lab makes one. ``retry_at``: when it tries something again
    that failed since a time and is to be waited for; None: nothing."""

    decider: Decider
    controllers: Sequence[SteppedPart] = ()
    reports_cycles: bool = False
    onlooker: PresentSource | None = None
    retry_at: Callable[[float], float | None] = lambda since: None


@dataclass(frozen=True)
class StartSettings:
    """How a scheduler is to decide. ``file``: where ``settings`` were read from, if from a file."""

    settings: SchedulerSettings
    file: Path | None = None
    adopt_default_scheduler: bool = False


class Plane(Protocol):
    """A cluster whose processes are ours, as far as a scheduler beside it needs it: see
    ``kailab.cluster.controlplane.supervised``."""

    folder: Path

    @property
    def own(self) -> Collection[str]:
        """Names of the processes that are the plane itself."""

    @property
    def kubeconfig(self) -> Path: ...

    def spawn(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None, port: int = 0
    ) -> Process: ...

    def processes(self) -> list[Process]: ...

    def log(self, name: str) -> Path: ...

    def stop(self, name: str) -> None: ...

    def start_kube_scheduler(self) -> None:
        """Have the cluster's own default scheduler, and return when it works."""


@runtime_checkable
class TakesImages(Protocol):
    """A plane whose nodes can be given images."""

    def load_images(self, archives: Sequence[Path]) -> None:
        """From archives, as ``docker save`` writes them. Raises ConnectError."""


class SchedulerProcesses(ABC):
    """A scheduler under test as processes beside one plane. Made anew for a plane at any time, also by another command: what
    runs is known to the plane, not to this object. The processes end by ``stop``, or with the plane."""

    def prepare(self, cluster: Cluster) -> None:
        """Bring in the kinds that it has definitions of its own for. Done again it changes nothing. Raises SchedulerFailed."""
        return

    @abstractmethod
    def start(self, cluster: Cluster, start: StartSettings, tell: Tell = lambda _: None) -> None:
        """Start it, and return when it works. ``tell`` gets what a user should know. Raises Unsupported for settings that it does
        not have, InputError, SchedulerFailed; then none of its processes is left running."""

    @abstractmethod
    def check(self) -> None:
        """Raises SchedulerFailed, with its last words, if a process of it has ended."""

    @abstractmethod
    def stop(self) -> None:
        """End its processes, those that run. Another may decide there next."""

    def end(self) -> None:
        """The same for good: no lab comes after it."""
        self.stop()

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Its processes, as the plane lists them."""

    @abstractmethod
    def version(self) -> str:
        """Its name and version, for the record; ``unknown``, and why, where nothing says it."""

    def ignored_words(self, objects: Sequence[Object]) -> Sequence[str]:
        """Words of these objects that came after its release, each once: it does as if they were not there."""
        return ()

    def rest(self, cluster: Cluster) -> IdleDetector | None:
        """What tells whether it is done; None: nothing does, and a lab waits for quiet."""
        return None

    @property
    def decisions(self) -> Path | None:
        """The file in which it says what it decided (``kailab.evidence.decision_file``); None: it is read off the cluster."""
        return None

    @property
    def url(self) -> str | None:
        """Where it serves its health and kailab's metrics; None: nowhere, or it has not said yet."""
        return None


@dataclass(frozen=True)
class SchedulerUnderTest(ABC):
    """A scheduler under test, as it was chosen: a value, equal if the same was chosen. ``kind``: its name in the registry.
    ``name``: what it goes by, its kind's or one from a file of names. ``options``: what was said for it, by the names that its
    row in the registry lists."""

    kind: str
    name: str
    options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)

    title: ClassVar[str]
    """As sentences call it."""
    scheduler_name: ClassVar[str]
    """The ``schedulerName`` of pods that are its to place."""
    understands_kai: ClassVar[bool] = False
    """KAI's objects (queues, gangs, priorities) go to it as they are, and mean to it what they mean to KAI."""
    knows_queues: ClassVar[bool] = False
    """It holds KAI's own Queues to their quota, so that what waits is explained by the rules for them; with others the cluster's own
    words are told."""
    reports_shares: ClassVar[bool] = False
    """It tells each queue's fair share, and whose turn is next."""
    has_default: ClassVar[bool] = False
    """A default scheduler is beside it, and places pods that name none."""
    waits_without_pods: ClassVar[bool] = False
    """What waits may have no pods yet, as a Job that is suspended until it is admitted: expectations speak of what runs, and take
    waiting pods as no more than so many."""
    writes: ClassVar[tuple[str, ...]] = ()
    """Kinds of its own in which it says, object by object, how far it is: on a real cluster a change of one is news, as of a pod."""
    prerequisite_kinds: ClassVar[tuple[str, ...]] = ()
    """Kinds of its own that it has to have read before work that goes by them comes: see ``await_read``."""
    one_per_machine: ClassVar[bool] = False
    """Two of it can't run on one machine at once, as where a port is fixed in its code: those who start several wait."""
    restart_for_each_lab: ClassVar[bool] = False
    """It remembers for a while what is gone, by name: in the next lab it would take new work for the old."""
    always_in_process: ClassVar[bool] = False
    """It decides in the process of a test on a real cluster too, where others are processes of their own."""
    quiet_seconds: ClassVar[float] = PROCESS_QUIET_SECONDS
    """How long nothing must change on a real cluster for it to count as done, where nothing else tells."""
    give_up_seconds: ClassVar[float] = OWED_SECONDS
    """After so long without any change on a real cluster what is still to come, by it or by others, is not waited for any more."""

    def option(self, name: str) -> Any:
        """What was said for an option; None: nothing."""
        return dict(self.options).get(name)

    def scheduler_names(self, adopt_default_scheduler: bool) -> tuple[str, ...]:
        """The ``schedulerName`` of pods that are its to place."""
        from kailab.model.labels import DEFAULT_SCHEDULER_NAME

        names = (self.scheduler_name, DEFAULT_SCHEDULER_NAME) if adopt_default_scheduler else (self.scheduler_name,)
        # Once, where it is the default scheduler itself.
        return tuple(dict.fromkeys(names))

    # --- what goes in ------------------------------------------------------------------------------------------------

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        """The same in its words: for each object what it becomes, in the order in which that is to be applied; nothing where its
        words need none. ``there``: the cluster that they go into, where one object's words depend on others. The objects
        are not changed. Raises NotExpressible, naming the object and the concept."""
        return [(obj,) for obj in objects]

    def await_prerequisites(self, there: Cluster) -> None:
        """Return when it has read all objects of ``reads_first``, or does not say so in time: then it goes by what it has."""
        return

    def space_of(self, kind: str, name: str, namespace: str, there: Cluster) -> str:
        """The namespace that an object of a namespaced kind is in that was written for ``namespace``: another one where ``translate``
        put it there."""
        return namespace

    # --- where it decides --------------------------------------------------------------------------------------------

    @property
    def installed(self) -> bool:
        """It is put into the cluster as pods, by a chart; so it can decide in a cluster of somebody else's, too."""
        return False

    def within(self, wiring: SchedulerWiring) -> InProcessScheduler | None:
        """It, deciding in this process over that cluster; None: it is no part of this process there."""
        return None

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> SchedulerProcesses | None:
        """It, as processes of a plane; None: it never is. ``programs``: the plane's; None: it is only looked at and ended. Raises
        InputError for options that name nothing of use."""
        return None

    @property
    def companion(self) -> SchedulerUnderTest | None:
        """Another one that decides in the same cluster, for pods of a name of its own: started before it, beside a plane; None: there is
        none."""
        return None

    def check_options(self) -> None:
        """Look at what was said for it, before anything is started. Raises InputError, naming the file at fault."""
        return

    def version(self, live: bool) -> str:
        """Its name and version where no process beside a plane tells it. ``live``: on a real API server."""
        return UNKNOWN_VERSION.format(name=self.name) if live else f"{self.name} (kailab {__version__})"

    # --- what it decided ---------------------------------------------------------------------------------------------

    def answers(self, pod: Object) -> bool:
        """Whether this unbound pod gets a condition from it sooner or later, so that a lab waits for it."""
        return False

    def stopped(self, there: Cluster) -> EvictionFinder | None:
        """What tells why pods were evicted, where that is not said by their condition DisruptionTarget, which KAI's default evictor
        and kube-scheduler's preemption set before they delete a pod; None: nothing else does."""
        return None

    def eviction(self, message: str) -> EvictionCondition | None:
        """What the condition of an evicted pod says, by its message; None: it says nothing of action and beneficiary."""
        return None

    def code(self, message: str) -> str:
        """The code of the reason that the message of a waiting pod tells; empty for none."""
        return ""
