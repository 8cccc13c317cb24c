"""Which backend, scheduler under test and options go together. Every face asks here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kailab.cluster.backends import BACKENDS, with_api_server
from kailab.cluster.choices import FLAGS, Spelt
from kailab.errors import InputError, InputErrors
from kailab.undertest.naming import read_name
from kailab.undertest.registry import SCHEDULERS, Clash


def clashes(backend: str, scheduler: str, given: Mapping[str, Any]) -> Iterator[Clash]:
    """What the scheduler can't do on that backend, of what is asked for. ``given``: see ``check_options``."""
    for clash in SCHEDULERS[read_name(scheduler).kind].clashes:
        if clash.backend == backend and (not clash.option or given.get(clash.option) not in (None, False)):
            yield clash


def check_lab(backend: str, scheduler: str, given: Mapping[str, Any], spelt: Spelt = FLAGS.__getitem__) -> None:
    """Raises InputError(s) for a backend or a scheduler that there is not, that don't go together, or that do not understand an
    option. See ``check_options``."""
    BACKENDS.check(backend)
    named = read_name(scheduler)
    found = list(clashes(backend, scheduler, {**named.options, **given}))
    # First whether the two go together at all: where they don't, nothing need be said of options.
    for clash in found:
        if not clash.option:
            raise _told(clash, spelt)
    check_options(backend, named.kind, given, spelt)
    check_options(backend, None, named.options)
    for clash in found:
        raise _told(clash, spelt)


def _told(clash: Clash, spelt: Spelt) -> InputError:
    what = f"{spelt(clash.option)}: {clash.why}" if clash.option else clash.why
    told = f": expected one of the backends {', '.join(with_api_server())}" if clash.elsewhere else ""
    return InputError(what + told)


def check_options(
    backend: str, scheduler: str | None, given: Mapping[str, Any], spelt: Spelt = FLAGS.__getitem__
) -> None:
    """Raises InputError(s) for options that the backend or the scheduler does not understand. ``given``: values by the options'
    names, None and False where nothing was said; ``scheduler`` None: whichever, as each test chooses its own. ``spelt``:
    how the user writes an option."""
    said = [name for name, value in given.items() if value is not None and value is not False]
    found = BACKENDS.not_understood(backend, said, spelt)
    if scheduler is not None:
        found += SCHEDULERS.not_understood(scheduler, said, spelt)
    if found:
        errors = [InputError(text) for text in found]
        raise InputErrors.of(errors)
