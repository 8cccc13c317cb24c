"""A situation: a fleet, what was done to the lab, step by step, and what may be asked. As data, so that it can be made, cut down,
written and carried out again.

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
from kailab.errors import Where
from kailab.fleet import read_fleet
from kailab.lab.change import Change, Delete, carry_out, read_changes
from kailab.lab.lab import Lab

Step: TypeAlias = dict[str, Any]
"""One step, in the form that files have."""


@dataclass(frozen=True)
class Situation:
    """``name`` says where it came from (``seed 12``)."""

    name: str
    fleet: Object
    steps: tuple[Step, ...]
    config: Object | None = None

    def opened(self, further: Sequence[Step] = (), *, refusals: bool = True) -> Lab:
        """A lab in which all steps were carried out, then ``further`` ones. ``refusals``: False leaves out that binds are refused.
        The caller closes it. Raises InputError.

        Whoever made the situation did not know what would be evicted: a pod by itself is gone then, and its deletion is passed
        over."""
        lab = Lab.open(read_fleet(yaml.safe_dump(self.fleet), self.name), config=self.config)
        try:
            for step in self.steps:
                if "refuse" not in step:
                    changes = read_changes([step], Where(file=self.name))
                    carry_out(lab, [change for change in changes if not _went_before(lab, change)])
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
        told = {"name": self.name, "fleet": self.fleet, "config": self.config, "steps": list(self.steps)}
        return yaml.dump(told, Dumper=_Plain, sort_keys=False, width=120)


def carry_out_steps(lab: Lab, steps: Sequence[Step]) -> None:
    """Carry out further steps. Steps of one form that follow each other are one change: the lab settles after the last of them. Raises
    InputError."""
    for _, alike in groupby(steps, key=lambda step: next(iter(step))):
        for change in read_changes(list(alike)):
            change.do(lab)
        lab.settle()


class _Plain(yaml.SafeDumper):
    """What is shared is written out."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _went_before(lab: Lab, change: Change) -> bool:
    """Whether a pod that is to be deleted was evicted already."""
    if not isinstance(change, Delete) or change.kind != "Pod":
        return False
    there = any(pod["metadata"]["name"] == change.name for pod in lab.cluster.list("Pod", change.namespace))
    return not there and any(one.pod == f"{change.namespace}/{change.name}" for one in lab.log.evictions)


def _refuse(lab: Lab, pods: str, message: str, namespace: str = "default") -> None:
    assert isinstance(lab.cluster, EmbeddedCluster)
    lab.cluster.refuse_binds(namespace, pods, message)
