"""A situation: a fleet and the steps that were carried out in its lab, as data that can be generated, shrunk, written
and carried out again.

    fleet: {apiVersion: kailab.dev/v1, kind: Fleet, ...}
    config: null                  # or a scheduler configuration
    steps:
      - apply: [...]              # and patch, delete, advance: the changes of kailab.lab.change
      - refuse: {pods: api-, message: "..."}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeAlias

import yaml

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object
from kailab.errors import Forbidden, InputError, Where
from kailab.fleet.reading import read_fleet
from kailab.lab.change import Apply, Change, Delete, carry_out, read_changes
from kailab.lab.lab import Lab

Step: TypeAlias = dict[str, Any]
"""One step, in the form of a file."""


@dataclass(frozen=True)
class Situation:
    """``name`` is the origin (``seed 12``)."""

    name: str
    fleet: Object
    steps: tuple[Step, ...]
    config: Object | None = None

    def opened(self, further: Sequence[Step] = (), *, refusals: bool = True) -> Lab:
        """Open a lab, carry out all steps, then ``further``. ``refusals`` False skips steps that refuse binds. The
        caller closes the lab. Raises InputError.

        A generated situation does not know which pods get evicted, so the deletion of a bare pod that is already
        gone is skipped. Nor does it know what a quota leaves: a bare pod that the cluster refuses is not there, and
        the objects beside it are, as with kubectl.
        """
        lab = Lab.open(read_fleet(yaml.safe_dump(self.fleet), self.name), config=self.config)
        try:
            for step in self.steps:
                if "refuse" not in step:
                    changes = read_changes([step], Where(file=self.name))
                    for change in changes:
                        if not _is_evicted(lab, change):
                            _carry_out_allowed(lab, change)
                elif refusals:
                    _refuse(lab, **step["refuse"])
            carry_out(lab, read_changes(list(further)))
            return lab
        except BaseException:
            lab.close()
            raise

    def applied(self) -> Iterator[Object]:
        """Every object that a step applies, in order."""
        for step in self.steps:
            yield from step.get("apply") or ()

    def with_steps(self, steps: Sequence[Step]) -> Situation:
        return replace(self, steps=tuple(steps))

    def as_yaml(self) -> str:
        document = {"name": self.name, "fleet": self.fleet, "config": self.config, "steps": list(self.steps)}
        return yaml.dump(document, Dumper=_Plain, sort_keys=False, width=120)


def carry_out_steps(lab: Lab, steps: Sequence[Step]) -> None:
    """Carry out further steps. Consecutive steps of one kind are one change: the lab settles after the last of them.
    Raises InputError.
    """
    for _, alike in groupby(steps, key=lambda step: next(iter(step))):
        for change in read_changes(list(alike)):
            change.do(lab)
        lab.settle()


class _Plain(yaml.SafeDumper):
    """Writes shared objects without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _is_evicted(lab: Lab, change: Change) -> bool:
    """True if a pod to be deleted was evicted already."""
    if not isinstance(change, Delete) or change.kind != "Pod":
        return False
    present = any(pod["metadata"]["name"] == change.name for pod in lab.cluster.list("Pod", change.namespace))
    return not present and any(eviction.pod == f"{change.namespace}/{change.name}" for eviction in lab.log.evictions)


def _carry_out_allowed(lab: Lab, change: Change) -> None:
    """Carry a change out, without the bare pods that the cluster refuses."""
    while True:
        try:
            return carry_out(lab, [change])
        except InputError as error:
            if not isinstance(change, Apply) or not isinstance(error.__cause__, Forbidden):
                raise
            left = tuple(obj for obj in change.objects if not _is_pod(obj, error.where))
            if len(left) == len(change.objects):
                raise
            change = replace(change, objects=left)


def _is_pod(obj: Object, where: Where) -> bool:
    return obj["kind"] == "Pod" and where.object == f"Pod/{obj['metadata']['name']}"


def _refuse(lab: Lab, pods: str, message: str, namespace: str = "default") -> None:
    assert isinstance(lab.cluster, EmbeddedCluster)
    lab.cluster.refuse_binds(namespace, pods, message)
