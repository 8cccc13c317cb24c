"""Ctrl-C where the exception that Python raises for it does not reach the command: it is reported as Ctrl-C, and nothing is saved."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kailab.cli import labfile
from kailab.cli.error_messages import ReportingGroup
from kailab.errors import InputError
from kailab.lab import Lab
from tests.cli.conftest import DEPLOYMENT


def _run(work: Callable[[], None]) -> Result:
    group = ReportingGroup("kailab", commands={"work": click.Command("work", callback=work)})
    return CliRunner().invoke(group, ["work"])


def _interrupt_that_is_lost() -> None:
    with suppress(KeyboardInterrupt):  # as in a callback, or in C code that drops exceptions
        signal.raise_signal(signal.SIGINT)


def _other_error_after_it() -> None:
    _interrupt_that_is_lost()
    raise InputError("no objects in -")


def _error_made_of_it() -> None:
    class Field:
        def __set_name__(self, owner: type, name: str) -> None:
            signal.raise_signal(signal.SIGINT)

    class _Record:
        labels = Field()


@pytest.mark.parametrize("work", [_other_error_after_it, _error_made_of_it])
def test_another_error_is_reported_as_the_interrupt(work: Callable[[], None]) -> None:
    done = _run(work)
    assert done.exit_code == 130
    assert "interrupted" in done.output
    assert "error" not in done.output


def test_a_change_that_was_interrupted_is_not_saved(busy: object, state: Path) -> None:
    before = state.read_bytes()

    def work() -> None:
        with labfile.change_lab(state) as lab:
            assert isinstance(lab, Lab)
            lab.apply(DEPLOYMENT)
            _interrupt_that_is_lost()

    assert _run(work).exit_code == 130
    assert state.read_bytes() == before


def test_a_command_that_ends_by_an_interrupt_keeps_its_own_exit_code() -> None:
    """``kailab top`` and ``kailab trace`` end in order by Ctrl-C."""
    assert _run(_interrupt_that_is_lost).exit_code == 0
    assert _run(lambda: None).exit_code == 0


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_an_error_of_a_later_command_is_its_own(handler: signal.Handlers) -> None:
    def work() -> None:
        raise InputError("no objects in -")

    assert _run(_other_error_after_it).exit_code == 130
    before = signal.signal(signal.SIGINT, handler)
    try:
        assert _run(work).exit_code == 2
    finally:
        signal.signal(signal.SIGINT, before)
