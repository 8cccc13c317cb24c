"""Read a trial file (YAML). Every fault is reported with file, line and field.

    name: rollout
    schedulers:
    - kailab
    - kai=builds/v0.16.8
    - {scheduler: kailab, config: packed.yaml, name: packed}
    on: [exercises/quota, scenarios/reclaim.yaml]
    isolation: controlplane

Paths are relative to the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kailab.errors import InputError, InputErrors, Where
from kailab.model.files import read_text
from kailab.model.manifests import line_of
from kailab.model.schema_files import find_schema_faults, read_schema
from kailab.model.yamltext import read_document
from kailab.trials.definition import contender, make_trial, subjects_of
from kailab.trials.matrix import Contender, Trial, TrialSubject
from kailab.undertest.selection import split_name

_SCHEMA = Path(__file__).with_name("trial.schema.json")
T = TypeVar("T")


def read_trial(path: Path) -> Trial:
    """Read the file. Raises InputError, or InputErrors with every fault of the file."""
    return _Reading(*read_document(read_text(path), str(path), "one trial"), path).trial()


class _Reading:
    def __init__(self, value: Any, lines: Any, path: Path) -> None:
        self.value = value
        self.lines = lines
        self.path = path
        self.base = path.absolute().parent
        self.errors: list[InputError] = []

    def trial(self) -> Trial:
        for field, message in find_schema_faults(self.value, read_schema(_SCHEMA)):
            self.fail(field, message)
        self.raise_errors()
        value = self.value
        contenders = list(self.contenders())
        subjects: list[TrialSubject] = []
        for number, text in enumerate(value["on"]):
            subjects += self.tried(f"on[{number}]", partial(subjects_of, text, self.base)) or []
        self.raise_errors()
        isolation = value.get("isolation", [])
        trial = self.tried(
            "",
            lambda: make_trial(
                contenders,
                subjects,
                [isolation] if isinstance(isolation, str) else isolation,
                name=value.get("name", self.path.stem),
                reference=value.get("reference", ""),
                fleet=self.beside(value["fleet"]) if "fleet" in value else "",
                compared=value.get("compare", ()),
                time_ratio=value.get("time", {}).get("ratio"),
                jobs=value.get("jobs"),
                baseline=str(self.base / value["baseline"]) if "baseline" in value else "",
                options=self.options(),
            ),
        )
        self.raise_errors()
        assert trial is not None
        return trial

    def contenders(self) -> Iterator[Contender]:
        for number, entry in enumerate(self.value["schedulers"]):
            fields = {"scheduler": entry} if isinstance(entry, str) else entry
            config = self.base / fields["config"] if "config" in fields else None
            arguments = (self.reference(fields["scheduler"]), config, fields.get("name", ""))
            made = self.tried(f"schedulers[{number}]", partial(contender, *arguments))
            if made is not None:
                yield made

    def reference(self, scheduler: str) -> str:
        """Resolve the path in a scheduler's name relative to the file."""
        name, separator, path = split_name(scheduler)
        return f"{name}{separator}{self.base / Path(path).expanduser()}" if path else scheduler

    def options(self) -> dict[str, str]:
        options = {key: self.value[key] for key in ("context", "kubernetes") if key in self.value}
        if "with" in self.value:
            options["operators"] = ",".join(self.value["with"])
        return options | {
            key: str(self.base / Path(self.value[key]).expanduser())
            for key in ("kubeconfig", "components")
            if key in self.value
        }

    def beside(self, fleet: str) -> str:
        return str(self.base / fleet) if (self.base / fleet).is_file() else fleet

    def tried(self, field: str, make: Callable[[], T]) -> T | None:
        """Call ``make`` and report its InputErrors as faults of the field."""
        try:
            return make()
        except InputErrors as errors:
            faults: Sequence[InputError] = errors.errors
        except InputError as error:
            faults = [error]
        for fault in faults:
            # A fault of another file already has its location.
            if fault.where.file:
                self.errors.append(fault)
            else:
                self.fail(field, fault.message)
        return None

    def fail(self, field: str, message: str) -> None:
        where = Where(str(self.path), line_of(self.lines, field), "trial", field)
        self.errors.append(InputError(message, where))

    def raise_errors(self) -> None:
        if self.errors:
            raise InputErrors.of(self.errors)
