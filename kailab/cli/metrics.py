"""``metrics``: Prometheus metrics of the lab or of a test, with a dashboard and alert rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.error_messages import CommandGroup
from kailab.cli.options import parse_seconds
from kailab.errors import EvidenceError, InputError

if TYPE_CHECKING:
    from kailab.evidence.history import LabHistory
    from kailab.evidence.metrics.families import MetricsSnapshot


@click.group(cls=CommandGroup, invoke_without_command=True)
@options.text_option(
    "--evidence", "past", metavar="RUN/TEST", help="Print the samples of a test over time, from its evidence."
)
@options.flag("--over-time", help="Print all recorded samples of the lab, not only the present ones.")
@click.option("--every", help="With samples over time: interval between samples: 15s, 1m.  [default: 15s]")
@click.option(
    "--listen",
    metavar="[ADDRESS:]PORT",
    help="Serve the lab's present metrics over HTTP until Ctrl-C.",
)
@options.state
@click.pass_context
def group(
    context: click.Context, past: str, over_time: bool, every: str | None, listen: str | None, state: Path
) -> None:
    """Print the metrics of the lab as OpenMetrics text: quota, share and use of queues, pending work and its waiting time, gangs,
    decisions, evictions. KAI's metrics keep KAI's names (docs/metrics.md).

    Samples over time have times of the lab's clock, in the form that `promtool tsdb create-blocks-from openmetrics` reads.
    """
    used = [name for name, value in (("--evidence", past), ("--over-time", over_time), ("--listen", listen)) if value]
    if context.invoked_subcommand is not None:
        if used or every:
            raise click.UsageError(f"{(used or ['--every'])[0]} can't be used with `{context.invoked_subcommand}`")
        return
    if len(used) > 1:
        raise click.UsageError(f"{used[0]} and {used[1]} can't be used together")
    if every is not None and not (past or over_time):
        raise click.UsageError("--every needs --evidence or --over-time, because it applies to samples over time")
    if listen:
        _serve(listen, state)
    elif past or over_time:
        _print_series(_read_history(past, state), parse_seconds("--every", every or "15s"))
    else:
        from kailab.evidence.metrics import openmetrics

        terminal.say(openmetrics.render_snapshot(_sample(state)).rstrip("\n"))


@group.command()
def dashboard() -> None:
    """Print a dashboard for Grafana, as JSON to import."""
    _print_file("grafana.json")


@group.command()
def rules() -> None:
    """Print alert rules for Prometheus, as a rule file."""
    _print_file("alerts.yaml")


@group.command()
@click.option("--namespace", "-n", default="kai-scheduler", help="Namespace of the scheduler.")
@click.option("--interval", default="30s", help="Interval between scrapes.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="Label of the ServiceMonitor by which Prometheus selects it: release=kube-prometheus-stack. May be repeated.",
)
def monitor(namespace: str, interval: str, labels: tuple[str, ...]) -> None:
    """Print a Service and a ServiceMonitor, so that the Prometheus operator scrapes the scheduler of `kailab scheduler manifests`."""
    from kailab.scheduler.service.manifests import monitoring

    parsed = {}
    for label in labels:
        name, equals, value = label.partition("=")
        if not equals:
            raise InputError(f"--label {label!r}: expected NAME=VALUE")
        if name in parsed:
            raise InputError(f"--label {name}: given twice")
        parsed[name] = value
    terminal.say(monitoring(namespace, interval, parsed).rstrip("\n"))


@group.command()
@click.argument("file", type=options.PATH)
@options.text_option("--evidence", "past", metavar="RUN/TEST", help="Draw a test from its evidence.")
@options.state
def figure(file: Path, past: str, state: Path) -> None:
    """Draw use over time into FILE (.png, .svg, .pdf): GPUs by queue, pending work, evictions. Needs matplotlib: pip install
    'kailab[figures]'."""
    from kailab.evidence.metrics import figures

    if file.suffix.lower() not in figures.SUFFIXES:
        raise InputError(f"{file}: expected a name that ends in {', '.join(figures.SUFFIXES)}")
    figures.load_plotting("matplotlib.figure")
    history = _read_history(past, state)
    figures.save_figure(figures.use_over_time(figures.series_of(history), past), file)
    terminal.say(f"{file} written")


def _print_file(name: str) -> None:
    from kailab.evidence.metrics import read_packaged_file

    terminal.say(read_packaged_file(name).rstrip("\n"))


def _print_series(history: LabHistory, every: float) -> None:
    from kailab.evidence.metrics import openmetrics
    from kailab.evidence.metrics.families import collect_series
    from kailab.evidence.metrics.over_time import snapshots_over_time

    terminal.say(
        openmetrics.render_series(collect_series(snapshots_over_time(history)), history.opened, every).rstrip("\n")
    )


def _sample(state: Path) -> MetricsSnapshot:
    """Sample the lab; counters come from its record, which knows more than the lab itself."""
    from kailab.evidence.metrics.over_time import snapshots_over_time
    from kailab.lab.metric_samples import sample_metrics

    with labfile.read_lab(state) as lab:
        try:
            recorded = list(snapshots_over_time(labfile.history_of(state, lab)))
        except EvidenceError as error:
            terminal.notice(
                f"counters cover only what the lab itself remembers, because its record can't be read: {error}"
            )
            recorded = []
        return sample_metrics(lab, recorded[-1] if recorded else None)


def _read_history(past: str, state: Path) -> LabHistory:
    """The history of the test ``past``, or else of the lab."""
    return labfile.history_in(options.EVIDENCE, past) if past else labfile.read_history(state)


def _serve(listen: str, state: Path) -> None:
    from kailab.evidence.metrics.openmetrics import MetricsEndpoint

    address, _, port = listen.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise InputError(f"--listen: {listen!r}: expected [ADDRESS:]PORT, with a port from 0 to 65535")
    # A missing lab is reported to the user now instead of to Prometheus later.
    _sample(state)
    with MetricsEndpoint(address.strip("[]") or "127.0.0.1", int(port), lambda: _sample(state)) as endpoint:
        terminal.say(f"metrics at {endpoint.url}")
        terminal.notice("Ctrl-C ends it")
        endpoint.serve()
