"""The session of a cycle as policies read it. ``kailab.engine.session.Session`` imports the policies and implements this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kailab.engine.config import EngineConfig
    from kailab.engine.decisions import QueueState
    from kailab.engine.ledger import Ledger
    from kailab.engine.policies.switches import Switches
    from kailab.engine.working.jobindex import JobIndex
    from kailab.engine.working.nodes import NodeTable
    from kailab.engine.working.queues import Amounts, QueueTree, WQueue
    from kailab.engine.working.state import Job, JournalEntry, WTask
    from kailab.engine.working.workingset import WorkingSet


class PolicySession(Protocol):
    """One running cycle. ``waiting`` and ``victims``: the sorted jobs that wait and that may be evicted; a configured
    order replaces them for the cycle.
    """

    working: WorkingSet
    config: EngineConfig
    switches: Switches
    now: float
    table: NodeTable
    tree: QueueTree
    jobs: dict[str, Job]
    waiting: JobIndex
    victims: JobIndex
    ledger: Ledger

    @property
    def initial_states(self) -> Mapping[str, QueueState]:
        """The states of queues before the first action."""

    @property
    def journal(self) -> Sequence[JournalEntry]:
        """The changes so far."""

    def queue_of(self, job: Job) -> WQueue | None: ...

    def accepted(self, task: WTask) -> Amounts:
        """What a task counts for in its queue on its present node."""

    def wanted(self, job: Job) -> Amounts:
        """What the job's next tasks want, as queues count it."""

    def wants(self, tasks: list[WTask], device: int) -> Amounts:
        """The sum of the tasks' requests. GPU memory counts in devices of ``device`` MiB."""
