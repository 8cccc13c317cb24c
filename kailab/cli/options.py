"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from kailab.cli import completion, terminal
from kailab.cli.labfile import STATE
from kailab.errors import InputError
from kailab.model.times import duration_seconds


def parse_seconds(option: str, text: str) -> float:
    """Parse a duration such as 1h30m. Raises InputError that names the option."""
    try:
        return duration_seconds(text, days=True)
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


def parse_span(option: str, text: str) -> float | None:
    """Parse a span of time above 0; None for an empty text. Raises InputError that names the option."""
    span = parse_seconds(option, text) if text else None
    if span is not None and span <= 0:
        raise InputError(f"{option}: expected a span of time above 0, not {text}")
    return span


def parse_limit(option: str, text: str) -> float:
    """Parse a time limit; infinite if there is none. Raises InputError that names the option."""
    if text.strip().lower() == "none":
        return math.inf
    try:
        return parse_seconds(option, text) or math.inf
    except InputError as error:
        raise InputError(f"{error}; 0 or none: no limit") from None


class FiniteFloatRange(click.FloatRange):
    """A number in a range. Unlike click's own type it refuses nan, which no bound excludes, and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def is_given(option: str) -> bool:
    """Whether an option was given on the command line."""
    source = click.get_current_context().get_parameter_source(option)
    return source is click.core.ParameterSource.COMMANDLINE


EVIDENCE = Path("evidence")
PATH = click.Path(path_type=Path)

Command = TypeVar("Command", bound=Callable[..., Any])


def check_stdin(count: int, spelt: str) -> None:
    """Raises InputError if stdin is named more than once. ``spelt``: how a user names it."""
    if count > 1:
        raise InputError(f"stdin ({spelt}) can be read only once")


def text_option(
    *names: str, help: str, metavar: str | None = None, shell_complete: Any = None
) -> Callable[[Command], Command]:
    """An option whose value is text, "" if it is not given."""
    return click.option(
        *names, default="", show_default=False, help=help, metavar=metavar, shell_complete=shell_complete
    )


def flag(*names: str, help: str) -> Callable[[Command], Command]:
    """An option without a value."""
    return click.option(*names, is_flag=True, help=help)


def path_option(*names: str, help: str) -> Callable[[Command], Command]:
    """An option whose value is a path, None if it is not given."""
    return click.option(*names, type=PATH, help=help)


def grouped(name: str, make: Callable[..., Any], *added: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Add options to a command, which gets them together as the argument ``name``. ``make``: the class of the argument, with a field for
    each option. Its other fields have defaults."""
    fields = [field.name for field in inspect.signature(make).parameters.values() if field.default is field.empty]

    def decorate(command: Any) -> Any:
        @wraps(command)
        def with_group(*args: Any, **given: Any) -> Any:
            group = make(**{field: given.pop(field) for field in fields})
            return command(*args, **{name: group}, **given)

        for option in reversed(added):
            with_group = option(with_group)
        return with_group

    return decorate


class Format(StrEnum):
    """How objects are printed."""

    table = ""
    wide = "wide"
    json = "json"
    yaml = "yaml"
    name = "name"
    tree = "tree"
    turns = "turns"


class TextOrJson(StrEnum):
    """Output for people or for programs."""

    text = "text"
    json = "json"


no_steps = flag("--no-steps", help="Only say why; do not try what would let it run.")
timeout = click.option(
    "--timeout",
    default="20s",
    metavar="DURATION",
    help="Try no further step once the trials have taken this much processor time; 0 or none: no limit.",
)


def _notice_override(ctx: click.Context, parameter: click.Parameter, value: Path) -> Path:
    """Say which lab answers if the environment variable takes the place of the current folder's own lab."""
    source = ctx.get_parameter_source(parameter.name or "")
    overrides = source is ParameterSource.ENVIRONMENT and STATE.exists() and STATE.absolute() != value.absolute()
    if overrides and not ctx.resilient_parsing:
        terminal.notice(f"KAILAB_STATE is set: this is the lab {value}, and not the one of this folder")
    return value


state = click.option(
    "--state",
    type=PATH,
    default=STATE,
    envvar="KAILAB_STATE",
    show_envvar=True,
    callback=_notice_override,
    help="The lab's file.",
)
namespace = click.option(
    "--namespace", "-n", default="default", shell_complete=completion.namespaces, help="Namespace of the objects."
)
all_namespaces = flag("--all-namespaces", "-A", help="Objects of all namespaces.")
selector = text_option("--selector", "-l", help="Only objects with these labels: app=train, 'app in (a, b)'.")
files = click.option(
    "--filename",
    "-f",
    "files",
    multiple=True,
    shell_complete=completion.files,
    help="A manifest, a folder of them, or - for stdin. May be repeated.",
)
recursive = flag("--recursive", "-R", help="Read also the folders in -f FOLDER.")
kustomize = path_option("--kustomize", "-k", "kustomization", help="Build the kustomization in this folder.")
output = click.option(
    "--output", "-o", type=click.Choice(TextOrJson), default=TextOrJson.text, help="Output for people or for programs."
)
evidence = click.option(
    "--evidence",
    type=PATH,
    default=EVIDENCE,
    envvar="KAILAB_EVIDENCE",
    show_envvar=True,
    help="Folder of the test runs.",
)
studies = click.option(
    "--studies",
    "root",
    type=PATH,
    default=Path("studies"),
    envvar="KAILAB_STUDIES",
    show_envvar=True,
    help="Folder of the studies.",
)
scheduler_config = path_option(
    "--scheduler-config", "--config", "config", help="Scheduler configuration file in KAI's format."
)
settle = click.option("--settle/--no-settle", default=True, help="Run the lab until nothing changes any more.")
kubeconfig = path_option(
    "--kubeconfig", help="Backends kubeconfig, vcluster: kubeconfig file instead of $KUBECONFIG or ~/.kube/config."
)
context = click.option("--context", help="Backends kubeconfig, vcluster: context instead of the current one.")
components = path_option(
    "--components",
    help="Backends controlplane, kind, vcluster: folder of etcd, kube-apiserver ..., instead of $KAILAB_COMPONENTS.",
)
kubernetes = click.option(
    "--kubernetes", help="Backends controlplane, kind, vcluster: Kubernetes version instead of the default."
)
operators = click.option(
    "--with",
    "operators",
    multiple=True,
    metavar="OPERATOR",
    help="Backends controlplane, kind: run these operators, for example jobset,kuberay. May be repeated.",
)
scheduler = click.option(
    "--scheduler",
    default="kailab",
    shell_complete=completion.schedulers,
    help="The scheduler: kailab, kube-scheduler, kailab+kube-scheduler (both, as in most clusters: each takes the pods that name it), kai (a real "
    "KAI), kai=DIR, kai@RELEASE, or NAME@FILE.",
    show_default=True,
)
kai = path_option("--kai-bin", "kai", help="Scheduler kai: folder of its binaries instead of $KAILAB_KAI_BIN.")
kai_crds = path_option("--kai-crds", help="Scheduler kai: file or folder of its CRDs instead of $KAILAB_KAI_CRDS.")
kai_chart = path_option(
    "--kai-chart",
    help="Scheduler kai@RELEASE: folder with its chart and images instead of $KAILAB_KAI_CHART or the published chart.",
)


def where(command: Command) -> Command:
    """Add the options that select a backend's cluster and its programs."""
    for option in (kai_crds, kai, kubernetes, components, context, kubeconfig):
        command = option(command)
    return command
