"""What is asked of a lab: its objects, and how things stand."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import structs

from kailab.cluster.protocol import Versioned
from kailab.errors import NotFound
from kailab.evidence.cluster_state import RowCache, read_cluster_state, state_of_rows
from kailab.evidence.decision_log import DecisionLog
from kailab.evidence.entries import ClusterState
from kailab.lab.picture import Picture
from kailab.lab.saved_picture import SavedParts, SavedPicture
from kailab.lab.spec import LabSpec
from kailab.lab.venues import LabCluster, Venue
from kailab.model import kinds, labels
from kailab.undertest.contract import SchedulerUnderTest

if TYPE_CHECKING:
    from pandas import DataFrame

    from kailab.lab.lab import Lab
    from kailab.scheduler.present import Present


class LabQueries:
    """Nothing here changes the lab."""

    venue: Venue
    spec: LabSpec
    cluster: LabCluster
    log: DecisionLog
    _saved_parts: SavedParts
    shares_pictures = False
    """Whether a picture stands for all that are asked for until the cluster changes. It is held as long."""
    _pictured: tuple[tuple[int, float, int], object, Picture] | None = None
    _stood: tuple[Picture, ClusterState] | None = None

    @property
    def scheduler(self) -> str:
        return self.spec.scheduler

    @cached_property
    def under_test(self) -> SchedulerUnderTest:
        """What decides."""
        return self.spec.under_test

    @cached_property
    def _rows(self) -> RowCache:
        """Of all looks."""
        return RowCache()

    def get(self, kind: str, name: str | None = None, namespace: str | None = "default") -> Any:
        """One object, or without a name all of a kind (namespace None: of all namespaces). Read-only. Raises
        InputError for an unknown kind, NotFound."""
        key = self.kind(kind)
        if name is not None:
            return self.cluster.get(key, name, self.space_of(key, name, namespace))
        return self.cluster.list(key, namespace if kinds.is_namespaced(key) else None)

    def space_of(self, kind: str, name: str, namespace: str | None) -> str | None:
        """The namespace to look for an object in that was written for one, None for outside of namespaces. Kinds that kailab does
        not know (by their kind key) may have objects in both."""
        if kind in kinds.KINDS:
            if not kinds.is_namespaced(kind) or namespace is None:
                return None
            return self.under_test.space_of(kind, name, namespace, self.cluster)
        try:
            self.cluster.get(kind, name, namespace)
        except NotFound:
            return None
        return namespace

    def kind(self, text: str) -> str:
        """The kind key for a kind as people type it (``po``, ``queues``, ``Job``). Raises InputError."""
        return kinds.resolve(text, self.cluster.kinds())

    def picture(self, like: Picture | None = None) -> Picture:
        """How things stand, joined with what was decided. ``like``: of a lab that this one was forked from, to be told with less work."""
        if (decided := self.venue.decided(self.under_test)) is not None:
            self.log.cycle, self.log.last = decided.cycle, decided.last
            # Those from before this lab was begun anew on the same file are another's.
            shift = decided.opened - self.spec.opened
            self.log.evictions = [structs.replace(entry, t=entry.t + shift) for entry in decided.evictions]
        # Only where a lab is merely looked at: nothing can have changed since it was saved.
        if self._saved_parts:
            saved = SavedPicture(self._saved_parts, self.cluster, self.log, self._present, self.under_test)
            return self._with_schedulers(saved)
        if not self.shares_pictures or like is not None or not isinstance(self.cluster, Versioned):
            return self._taken(like)
        # As long as nothing has changed it is the same picture.
        moment = self.cluster.version, self.cluster.now(), self.log.cycle
        if self._pictured is None or self._pictured[0] != moment or self._pictured[1] is not self.log.last:
            self._pictured = moment, self.log.last, self._taken()
        return self._pictured[2]

    def _taken(self, like: Picture | None = None) -> Picture:
        taken = Picture(self.cluster, self.log, self._present, self.under_test, like, self._rows)
        return self._with_schedulers(taken)

    def _with_schedulers(self, picture: Picture) -> Picture:
        """Tell it who schedules here. Who else does in a cluster that others use, too, is not known."""
        if self.venue.exclusive:
            default = (labels.DEFAULT_SCHEDULER_NAME,) if self.under_test.has_default else ()
            ours = self.under_test.scheduler_names(self.spec.adopt_default_scheduler)
            picture.schedulers = frozenset((*ours, *default))
        return picture

    def standing(self) -> ClusterState:
        """All of the cluster as it is now, in rows."""
        picture = self.picture()
        if self._saved_parts:
            return read_cluster_state(self.cluster, self._rows)
        if self._stood is not None and self._stood[0] is picture:
            return self._stood[1]
        found = state_of_rows(self.cluster, self._rows, picture.nodes, picture.rows, picture.accounts, picture.used)
        if self.shares_pictures:
            self._stood = picture, found
        return found

    def fork(self) -> Lab:
        """A copy in which anything can be tried (``kailab.lab.fork``), to be closed; this lab stays as it is."""
        from kailab.lab import fork

        return fork.fork(cast("Lab", self))

    def table(self, what: Literal["pods", "podgroups", "queues", "nodes", "evictions"]) -> DataFrame:
        """As a table of pandas, GPUs as numbers. Raises InputError where pandas is not installed (extra ``figures``)."""
        from kailab.lab import frames

        return frames.table(self.picture(), what)

    def _repr_html_(self) -> str:
        """For notebooks."""
        from kailab.lab import html

        return html.lab(self)

    def _present(self, promised: tuple[str, ...]) -> Present:
        raise NotImplementedError
