"""Make a trial from what the user names: exercises, files of scenarios and manifests as subjects, schedulers and
configurations as contenders."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from kailab.cluster.backends import BACKENDS
from kailab.errors import InputError
from kailab.evidence.canonical import compact_json
from kailab.fleet.reading import load_fleet
from kailab.model import yamltext
from kailab.model.files import read_text
from kailab.model.private_files import make_folder, write_text
from kailab.model.yamltext import write_documents
from kailab.operators import choose_operators
from kailab.operators.processes import find_addons as programs_found
from kailab.scenarios.scenario import SUFFIXES, read_scenario_file
from kailab.scheduler.settings.config_file import settings_of
from kailab.trials.matrix import KINDS, Contender, Trial, TrialSubject
from kailab.trials.tests_ini import fleet_of_tests
from kailab.undertest.contract import Unsupported
from kailab.undertest.kai.settings import write_settings
from kailab.undertest.registry import SCHEDULERS
from kailab.undertest.selection import absolute_name, check_lab, choose_scheduler, read_name, split_name

if TYPE_CHECKING:
    from kailab.lab import Lab

EXERCISES = Path("exercises")


def subjects_of(text: str, base: Path = Path()) -> list[TrialSubject]:
    """Resolve a name to subjects.

    ``text``: a path relative to ``base``, ``FILE.py::TEST``, or the name of an exercise in the folder ``exercises``. A
    folder with tests is one exercise; a folder of such folders, or of files of scenarios, is several subjects. Raises
    InputError(s).
    """
    name, _, test = text.partition("::")
    path = _find_path(name, base)
    if test:
        if path.suffix != ".py":
            raise InputError(f"{text}: expected FILE.py::TEST")
        return [_exercise(path, test)]
    if path.is_file():
        return [_exercise(path)] if path.suffix == ".py" else [_of_file(path)]
    if _has_tests(path):
        return [_exercise(path)]
    below = [folder for folder in sorted(path.iterdir()) if folder.is_dir() and _has_tests(folder)]
    if below:
        return [_exercise(folder) for folder in below]
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    scenarios = [file for file in files if _is_scenarios(file)]
    if scenarios:
        return [_of_file(file) for file in scenarios]
    if not files:
        raise InputError(f"{text}: the folder has nothing to run; expected test_*.py, scenarios or manifests")
    return [TrialSubject(kind="workload", name=path.name, path=str(path), files=_all_below(path))]


def _find_path(name: str, base: Path) -> Path:
    given = Path(name).expanduser()
    for path in (base / given, base / EXERCISES / given):
        if path.exists():
            return path.absolute()
    folder = base / EXERCISES
    known = sorted(each.name for each in folder.glob("*") if _has_tests(each)) if folder.is_dir() else []
    hint = f"; exercises here: {', '.join(known)}" if known else ""
    raise InputError(f"{name}: no such file or folder{hint}")


def _has_tests(folder: Path) -> bool:
    return any(folder.glob("test_*.py"))


def _exercise(path: Path, test: str = "") -> TrialSubject:
    folder = path if path.is_dir() else path.parent
    module = path.stem.removeprefix("test_") if path.is_file() else folder.name
    name = "-".join(part for part in (folder.name, "" if module == folder.name else module, test) if part)
    return TrialSubject(
        kind="exercise", name=name, path=f"{path}::{test}" if test else str(path), files=_all_below(folder)
    )


def _of_file(path: Path) -> TrialSubject:
    if _is_scenarios(path):
        return TrialSubject(kind="scenarios", name=path.stem, path=str(path), files=_files_of_scenarios(path))
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: expected a test_*.py, a file of scenarios or manifests ({', '.join(SUFFIXES)})")
    return TrialSubject(kind="workload", name=path.stem, path=str(path), files=(str(path),))


def is_trial_file(path: Path) -> bool:
    """True if a file has the form of a trial: one mapping that is no object and no scenario."""
    if path.suffix not in (".yaml", ".yml"):
        return False
    documents = [value for value, _ in yamltext.read_documents(read_text(path), str(path))]
    return len(documents) <= 1 and not any(
        isinstance(value, dict) and ("kind" in value or "steps" in value) for value in documents
    )


def _is_scenarios(path: Path) -> bool:
    """True if the file has the form of scenarios: steps and no kind."""
    text = read_text(path)
    if "steps" not in text:
        return False
    first = next(iter(yamltext.read_documents(text, str(path))), (None, 0))[0]
    first = first[0] if isinstance(first, list) and first else first
    return isinstance(first, dict) and "steps" in first and "kind" not in first


def _files_of_scenarios(path: Path) -> tuple[str, ...]:
    """The file of scenarios and all files that its steps apply."""
    files = [str(path)]
    for scenario in read_scenario_file(path):
        for step in scenario.steps:
            for name in step.get("apply", ()):
                if isinstance(name, str):
                    applied = path.parent / name
                    files += _all_below(applied) if applied.is_dir() else [str(applied)]
    return tuple(dict.fromkeys(files))


def _all_below(folder: Path) -> tuple[str, ...]:
    return tuple(str(file) for file in sorted(folder.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)


NAMES = "contenders.yaml"
_UNFIT = re.compile(r"[^a-z0-9.-]+")


def contender(scheduler: str, config: Path | None = None, name: str = "") -> Contender:
    """Make a contender.

    ``scheduler``: KIND, KIND=DIR, KIND@RELEASE or NAME@FILE. Raises InputError for an unknown scheduler, or a
    configuration that it does not accept or that cannot be read.
    """
    named = read_name(scheduler)
    if config is not None and "config" not in SCHEDULERS[named.kind].options:
        raise InputError(f"scheduler {scheduler} takes no configuration")
    if config is not None and "config" in named.options:
        raise InputError(f"scheduler {scheduler}: its entry already has a configuration; expected no --config with it")
    if config is not None:
        settings_of(config)
    return Contender(
        name=name or _default_name(scheduler, config),
        scheduler=absolute_name(scheduler),
        kind=named.kind,
        config=str(config.absolute()) if config is not None else "",
    )


def contenders(schedulers: Sequence[str], configs: Sequence[Path]) -> list[Contender]:
    """Combine each scheduler with each configuration that it accepts. Raises InputError."""
    made: list[Contender] = []
    for scheduler in schedulers:
        takes = "config" in SCHEDULERS[read_name(scheduler).kind].options
        made += [contender(scheduler, config) for config in configs] if takes and configs else [contender(scheduler)]
    if configs and not any(each.config for each in made):
        raise InputError(f"--config: none of {', '.join(schedulers)} takes a configuration")
    return made


NOW = "now"
"""The name of the contender with the configuration in use."""


def contender_in_use(lab: Lab | None, folder: Path) -> Contender:
    """The contender ``now``: the scheduler kailab with the configuration of a lab, or with KAI's defaults without one.

    A configuration other than the defaults is written to a file in ``folder``. Raises InputError if a file can't hold it.
    """
    if lab is None or lab.config == settings_of(None).engine:
        return contender("kailab", name=NOW)
    try:
        text = write_settings(lab.config)
    except Unsupported as error:
        raise InputError(
            f"the configuration of the lab here can't be written to a file for the contender {NOW}: {error}; name both "
            "configurations: --config CURRENT.yaml --config NEW.yaml"
        ) from error
    file = folder / f"{NOW}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.yaml"
    make_folder(folder)
    write_text(file, text)
    return contender("kailab", file, NOW)


def config_files(contender: Contender) -> list[str]:
    """The configuration file of a contender, its own or that of its entry in a file of names."""
    path = contender.config or read_name(contender.scheduler).options.get("config")
    return [str(path)] if path else []


def _default_name(scheduler: str, config: Path | None) -> str:
    """A short valid name, such as ``kai-v0.16.8`` for ``kai=builds/v0.16.8`` and ``kai@v0.16.8``."""
    head, separator, path = split_name(scheduler)
    # After the @ stands a release that is installed by its chart, or the file of a named entry, whose name is enough.
    detail = Path(path).name if separator == "=" else path if head in SCHEDULERS else ""
    words = [head, *([detail] if detail else []), *([config.stem] if config else [])]
    return _UNFIT.sub("-", "-".join(words).lower()).strip("-.")


def check_contenders(contenders: Iterable[Contender], trial: Trial) -> None:
    """Check contenders before anything is started. Raises InputError for duplicate names, and for a contender that an
    isolation does not support."""
    names: set[str] = set()
    for contender in contenders:
        if contender.name in names:
            raise InputError(f"two contenders are named {contender.name}; give one of them its own name (NAME@FILE)")
        names.add(contender.name)
        for isolation in trial.isolations:
            try:
                check_lab(isolation, contender.scheduler, dict(trial.options))
            except InputError as error:
                raise InputError(f"{contender.name} cannot run on {isolation}: {error}") from None
        choose_scheduler(contender.scheduler).check_options()
    if trial.reference not in names:
        raise InputError(
            f"the reference {trial.reference!r} is not a contender; expected one of: {', '.join(sorted(names))}"
        )


def with_named_configurations(folder: Path, contenders: Sequence[Contender]) -> list[Contender]:
    """Give each contender with a configuration an entry in a file of names in the trial's folder, so that other
    processes can be given its name."""
    entries = {}
    named_contenders = []
    for contender in contenders:
        if not contender.config:
            named_contenders.append(contender)
            continue
        named = read_name(contender.scheduler)
        keys = {own.option: own.key for own in SCHEDULERS[named.kind].own}
        entry = f"{contender.name}-configured" if contender.name in SCHEDULERS else contender.name
        entries[entry] = {
            "kind": named.kind,
            **{keys[option]: str(value) for option, value in named.options.items() if option in keys},
            "config": contender.config,
        }
        named_contenders.append(
            Contender(
                name=contender.name,
                scheduler=f"{entry}@{folder.absolute() / NAMES}",
                kind=contender.kind,
                config=contender.config,
            )
        )
    if entries:
        make_folder(folder)
        write_text(folder / NAMES, write_documents([entries]))
    return named_contenders


def default_isolation(contenders: Iterable[Contender], options: Mapping[str, str]) -> str:
    """``embedded`` if every contender can run there, because that needs no process; otherwise ``controlplane``."""
    try:
        for contender in contenders:
            check_lab("embedded", contender.scheduler, dict(options))
    except InputError:
        return "controlplane"
    return "embedded"


def _with_fleet_of_tests(subject: TrialSubject) -> TrialSubject:
    named = fleet_of_tests(Path(subject.path.partition("::")[0]))
    return structs.replace(subject, fleet=named.fleet) if named is not None else subject


def make_trial(
    contenders: Sequence[Contender],
    subjects: Sequence[TrialSubject],
    isolations: Sequence[str],
    *,
    name: str,
    reference: str = "",
    fleet: str = "",
    compared: Sequence[str] = (),
    time_ratio: float | None = None,
    jobs: int | None = None,
    baseline: str = "",
    options: Mapping[str, str] | None = None,
) -> Trial:
    """Make a trial with defaults and check it before anything is started.

    No ``isolations``: embedded if every contender can run there with these options, otherwise a light control plane for each
    cell. No ``fleet``: the one that the settings of the subjects' tests name (``tests_ini``), otherwise lesson. Empty
    ``reference``: the first contender. No ``compared``: everything except time. Raises InputError, and MissingComponents for
    operators whose programs are missing.
    """
    if not contenders:
        raise InputError("no contenders; expected --scheduler A --scheduler B")
    if not subjects:
        raise InputError("nothing to compare the schedulers on; expected exercises, scenarios or manifests")
    for isolation in isolations:
        BACKENDS.check(isolation)
    if unknown := [kind for kind in compared if kind not in KINDS]:
        raise InputError(f"--compare: unknown kind of difference {unknown[0]!r}; expected some of: {', '.join(KINDS)}")
    if "time" in compared and time_ratio is None:
        raise InputError("--compare time needs --time-ratio: how many times as long counts as a difference")
    named_subjects = _named_apart(subjects)
    if fleet:
        load_fleet(fleet)
    else:
        named_subjects = tuple(_with_fleet_of_tests(subject) for subject in named_subjects)
    trial = Trial(
        name=name,
        contenders=tuple(contenders),
        isolations=tuple(dict.fromkeys(isolations)) or (default_isolation(contenders, options or {}),),
        subjects=named_subjects,
        reference=reference or contenders[0].name,
        fleet=fleet,
        options=_options(options or {}),
        compared=tuple(compared) or KINDS[:-1],
        time_ratio=time_ratio,
        jobs=jobs,
        baseline=baseline,
    )
    check_contenders(trial.contenders, trial)
    if "operators" in trial.options:
        programs_found(trial.options["operators"].split(","))
    return trial


def _options(options: Mapping[str, str]) -> dict[str, str]:
    """Add the operators that the named ones need. Raises InputError."""
    if "operators" not in options:
        return dict(options)

    return {**options, "operators": ",".join(choose_operators(options["operators"]))}


def _named_apart(subjects: Sequence[TrialSubject]) -> tuple[TrialSubject, ...]:
    """Remove duplicate subjects and rename scenarios with the name of an exercise. Raises InputError for two subjects
    with one name."""
    seen: dict[str, TrialSubject] = {}
    for given in subjects:
        subject = given
        if subject.name in seen and seen[subject.name].kind != subject.kind:
            subject = structs.replace(subject, name=f"{subject.name}-{subject.kind}")
        other = seen.setdefault(subject.name, subject)
        if other.path != subject.path:
            raise InputError(f"{other.path} and {subject.path} would both be named {subject.name}")
    return tuple(seen.values())


def trial_name(contenders: Sequence[Contender], subjects: Sequence[TrialSubject], isolations: Sequence[str]) -> str:
    """A name derived from the arguments, so that the same command continues the same trial."""
    content = compact_json([list(contenders), [subject.path for subject in subjects], list(isolations)])
    return f"trial-{hashlib.sha256(content).hexdigest()[:8]}"
