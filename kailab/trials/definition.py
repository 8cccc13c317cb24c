"""What a trial runs, from what a user names: exercises, files of scenarios, manifests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from kailab.cluster.backends import BACKENDS
from kailab.errors import InputError
from kailab.evidence.canonical import compact_json
from kailab.fleet import load_fleet
from kailab.model import yamltext
from kailab.model.files import read_text
from kailab.model.private_files import make_folder, write_text
from kailab.model.yamltext import write_documents
from kailab.scenarios.scenario import SUFFIXES, read_file
from kailab.trials.matrix import KINDS, Contender, Trial, TrialSubject
from kailab.undertest.registry import SCHEDULERS
from kailab.undertest.selection import absolute_name, check_lab, choose_scheduler, read_name, split_name

EXERCISES = Path("exercises")


def subjects_of(text: str, base: Path = Path()) -> list[TrialSubject]:
    """``text``: a path seen from ``base``, ``FILE.py::TEST``, or the name of an exercise in the folder ``exercises``. A folder with
    tests is an exercise, one with such folders is several; so are files of scenarios in a folder. Raises InputError(s)."""
    name, _, test = text.partition("::")
    path = _found(name, base)
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
    files = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES)
    scenarios = [file for file in files if _is_scenarios(file)]
    if scenarios:
        return [_of_file(file) for file in scenarios]
    if not files:
        raise InputError(f"{text}: there is nothing to run in it; expected test_*.py, scenarios or manifests")
    return [TrialSubject(kind="workload", name=path.name, path=str(path), files=_all_below(path))]


def _found(name: str, base: Path) -> Path:
    given = Path(name).expanduser()
    for path in (base / given, base / EXERCISES / given):
        if path.exists():
            return path.absolute()
    there = base / EXERCISES
    known = sorted(folder.name for folder in there.glob("*") if _has_tests(folder)) if there.is_dir() else []
    hint = f"; exercises here: {', '.join(known)}" if known else ""
    raise InputError(f"{name}: there is no such file or folder{hint}")


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
        return TrialSubject(kind="scenarios", name=path.stem, path=str(path), files=_stands_on(path))
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: expected a test_*.py, a file of scenarios or manifests ({', '.join(SUFFIXES)})")
    return TrialSubject(kind="workload", name=path.stem, path=str(path), files=(str(path),))


def _is_scenarios(path: Path) -> bool:
    """By its form: what has a kind is a manifest."""
    text = read_text(path)
    if "steps" not in text:
        return False
    first = next(iter(yamltext.read_documents(text, str(path))), (None, 0))[0]
    first = first[0] if isinstance(first, list) and first else first
    return isinstance(first, dict) and "steps" in first and "kind" not in first


def _stands_on(path: Path) -> tuple[str, ...]:
    """A file of scenarios, and what its steps apply."""
    files = [str(path)]
    for scenario in read_file(path):
        for step in scenario.steps:
            named = [path.parent / one for one in step.get("apply", ()) if isinstance(one, str)]
            for one in named:
                files += _all_below(one) if one.is_dir() else [str(one)]
    return tuple(dict.fromkeys(files))


def _all_below(folder: Path) -> tuple[str, ...]:
    return tuple(str(file) for file in sorted(folder.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)


# Contenders, from what a user calls schedulers and configurations.

NAMES = "contenders.yaml"
_UNFIT = re.compile(r"[^a-z0-9.-]+")


def contender(scheduler: str, config: Path | None = None, name: str = "") -> Contender:
    """``scheduler``: KIND, KIND=DIR, KIND@RELEASE or NAME@FILE. Raises InputError for one that there is not, for a configuration that it does not
    take, and for one that can't be read."""
    named = read_name(scheduler)
    if config is not None and "config" not in SCHEDULERS[named.kind].options:
        raise InputError(f"scheduler {scheduler}: it takes no configuration")
    if config is not None and "config" in named.options:
        raise InputError(f"scheduler {scheduler}: its entry says how it decides already")
    if config is not None:
        from kailab.scheduler import settings_of

        settings_of(config)
    return Contender(
        name=name or _called(scheduler, config),
        scheduler=absolute_name(scheduler),
        kind=named.kind,
        config=str(config.absolute()) if config is not None else "",
    )


def contenders(schedulers: Sequence[str], configs: Sequence[Path]) -> list[Contender]:
    """Each scheduler with each configuration, where it takes any. Raises InputError."""
    found: list[Contender] = []
    for one in schedulers:
        takes = "config" in SCHEDULERS[read_name(one).kind].options
        found += [contender(one, config) for config in configs] if takes and configs else [contender(one)]
    if configs and not any(one.config for one in found):
        raise InputError(f"--config: none of {', '.join(schedulers)} takes a configuration")
    return found


def config_files(contender: Contender) -> list[str]:
    """The file of how it decides, its own or that of its entry in a file of names."""
    found = contender.config or read_name(contender.scheduler).options.get("config")
    return [str(found)] if found else []


def _called(scheduler: str, config: Path | None) -> str:
    """Short, and as names of schedulers are: ``kai-v0.16.8`` for ``kai=builds/v0.16.8`` and ``kai@v0.16.8``."""
    head, separator, path = split_name(scheduler)
    # Of a release that is installed by its chart nothing else is behind the @; an entry of a file has its name.
    told = Path(path).name if separator == "=" else path if head in SCHEDULERS else ""
    words = [head, *([told] if told else []), *([config.stem] if config else [])]
    return _UNFIT.sub("-", "-".join(words).lower()).strip("-.")


def check_contenders(contenders: Iterable[Contender], trial: Trial) -> None:
    """Before anything is started. Raises InputError: two of one name, or one that can't be in an isolation, with the reason."""
    names: set[str] = set()
    for one in contenders:
        if one.name in names:
            raise InputError(f"two contenders are called {one.name}; give one of them a name of its own (NAME@FILE)")
        names.add(one.name)
        for isolation in trial.isolations:
            try:
                check_lab(isolation, one.scheduler, dict(trial.options))
            except InputError as error:
                raise InputError(f"{one.name} can't be compared on {isolation}: {error}") from None
        choose_scheduler(one.scheduler).check_options()
    if trial.reference not in names:
        raise InputError(f"the reference {trial.reference!r} is none of the contenders: {', '.join(sorted(names))}")


def with_named_configurations(folder: Path, found: Sequence[Contender]) -> list[Contender]:
    """The same as processes of their own can be given them: one with a configuration has an entry in a file of names in the trial's
    folder."""
    entries = {}
    spoken = []
    for one in found:
        if not one.config:
            spoken.append(one)
            continue
        named = read_name(one.scheduler)
        keys = {own.option: own.key for own in SCHEDULERS[named.kind].own}
        entry = f"{one.name}-configured" if one.name in SCHEDULERS else one.name
        entries[entry] = {
            "kind": named.kind,
            **{keys[option]: str(value) for option, value in named.options.items() if option in keys},
            "config": one.config,
        }
        spoken.append(
            Contender(name=one.name, scheduler=f"{entry}@{folder.absolute() / NAMES}", kind=one.kind, config=one.config)
        )
    if entries:
        make_folder(folder)
        write_text(folder / NAMES, write_documents([entries]))
    return spoken


# A trial, from its parts: what is not said gets its default, and what does not go together is refused before anything is started.

ISOLATION = "controlplane"


def make_trial(
    contenders: Sequence[Contender],
    subjects: Sequence[TrialSubject],
    isolations: Sequence[str],
    *,
    name: str,
    reference: str = "",
    fleet: str = "lesson",
    compared: Sequence[str] = (),
    time_ratio: float | None = None,
    jobs: int | None = None,
    baseline: str = "",
    options: Mapping[str, str] | None = None,
) -> Trial:
    """``isolations`` none: a light control plane for each cell. ``reference`` empty: the first contender. ``compared`` none: everything
    but time. Raises InputError, MissingComponents for operators that were not got."""
    if not contenders:
        raise InputError("say what is compared: --scheduler A --scheduler B")
    if not subjects:
        raise InputError("say what they are compared on: exercises, scenarios or manifests")
    for isolation in isolations:
        BACKENDS.check(isolation)
    if unknown := [kind for kind in compared if kind not in KINDS]:
        raise InputError(
            f"--compare: there is no kind of difference {unknown[0]!r}; expected some of: {', '.join(KINDS)}"
        )
    if "time" in compared and time_ratio is None:
        raise InputError("--compare time: say how many times as long is a difference: --time-ratio")
    found = _named_apart(subjects)
    load_fleet(fleet)
    trial = Trial(
        name=name,
        contenders=tuple(contenders),
        isolations=tuple(dict.fromkeys(isolations)) or (ISOLATION,),
        subjects=found,
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
        from kailab.operators.processes import find_addons as programs_found

        programs_found(trial.options["operators"].split(","))
    return trial


def _options(said: Mapping[str, str]) -> dict[str, str]:
    """Operators by name, with those that they need. Raises InputError."""
    if "operators" not in said:
        return dict(said)
    from kailab.operators import choose_operators

    return {**said, "operators": ",".join(choose_operators(said["operators"]))}


def _named_apart(subjects: Sequence[TrialSubject]) -> tuple[TrialSubject, ...]:
    """Each once. Scenarios that are called as an exercise is get a longer name. Raises InputError where two would have one name."""
    seen: dict[str, TrialSubject] = {}
    for one in subjects:
        subject = one
        if subject.name in seen and seen[subject.name].kind != subject.kind:
            subject = structs.replace(subject, name=f"{subject.name}-{subject.kind}")
        other = seen.setdefault(subject.name, subject)
        if other.path != subject.path:
            raise InputError(f"{other.path} and {subject.path} would both be called {subject.name}")
    return tuple(seen.values())


def trial_name(contenders: Sequence[Contender], subjects: Sequence[TrialSubject], isolations: Sequence[str]) -> str:
    """The same for the same command, so that a rerun goes on."""
    what = compact_json([list(contenders), [subject.path for subject in subjects], list(isolations)])
    return f"trial-{hashlib.sha256(what).hexdigest()[:8]}"
