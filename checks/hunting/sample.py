"""One case of a hunt: a fleet and the steps of a scenario, as data that can be cut down and written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from kailab.cluster.protocol import Object
from kailab.model.private_files import make_folder, replace_file
from kailab.model.yamltext import write_documents
from kailab.scenarios.scenario import Scenario, read_file

Step: TypeAlias = dict[str, Any]
"""In the form of a scenario's file."""

SCENARIO = "scenario.yaml"
FLEET = "fleet.yaml"


@dataclass(frozen=True)
class HuntSample:
    """``name``: the scenario's. ``seed``: what it was made from."""

    name: str
    seed: int
    fleet: Object
    steps: tuple[Step, ...]

    def with_steps(self, steps: Sequence[Step]) -> HuntSample:
        return replace(self, steps=tuple(steps))

    def objects(self) -> Iterator[Object]:
        """All that is applied, in order."""
        for step in self.steps:
            yield from step.get("apply") or ()

    def written(self, folder: Path, description: str = "") -> Scenario:
        """As files in that folder: a scenario and its fleet. Read back as anybody's would be: raises InputError where it has not the
        documented form."""
        make_folder(folder)
        told = {"description": description} if description else {}
        scenario = {"name": self.name, **told, "fleet": FLEET, "steps": list(self.steps)}
        replace_file(folder / FLEET, write_documents([self.fleet]).encode())
        replace_file(folder / SCENARIO, write_documents([scenario]).encode())
        return read_file(folder / SCENARIO)[0]
