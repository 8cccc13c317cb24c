"""A sample of a hunt: a fleet and the steps of a scenario, as data that can be cut down and written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from kailab.cluster.protocol import Object
from kailab.model.private_files import make_folder, replace_file
from kailab.model.yamltext import write_documents
from kailab.scenarios.scenario import Scenario, read_scenario_file

Step: TypeAlias = dict[str, Any]
"""A step in the form of a scenario file."""

SCENARIO = "scenario.yaml"
FLEET = "fleet.yaml"


@dataclass(frozen=True)
class HuntSample:
    """``name``: the scenario's. ``seed``: its origin."""

    name: str
    seed: int
    fleet: Object
    steps: tuple[Step, ...]

    def with_steps(self, steps: Sequence[Step]) -> HuntSample:
        return replace(self, steps=tuple(steps))

    def objects(self) -> Iterator[Object]:
        """All applied objects, in order."""
        for step in self.steps:
            yield from step.get("apply") or ()

    def written(self, folder: Path, description: str = "") -> Scenario:
        """Write a scenario and its fleet to a folder, and read the scenario back. Raises InputError if it does not have
        the documented form.
        """
        make_folder(folder)
        header = {"description": description} if description else {}
        scenario = {"name": self.name, **header, "fleet": FLEET, "steps": list(self.steps)}
        replace_file(folder / FLEET, write_documents([self.fleet]).encode())
        replace_file(folder / SCENARIO, write_documents([scenario]).encode())
        return read_scenario_file(folder / SCENARIO)[0]
