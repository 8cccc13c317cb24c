"""Contenders, from what a user calls schedulers and configurations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from kailab.errors import InputError
from kailab.model.private_files import make_folder, write_text
from kailab.model.yamltext import write_documents
from kailab.trials.matrix import Contender, Trial
from kailab.undertest.registry import SCHEDULERS
from kailab.undertest.selection import absolute_name, check_lab, choose_scheduler, read_name, split_name

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


def check(contenders: Iterable[Contender], trial: Trial) -> None:
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


def in_words(folder: Path, found: Sequence[Contender]) -> list[Contender]:
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
