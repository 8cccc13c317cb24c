"""The command line of `python -m benchmarks.lab_runs`: measure the lab in the set-ups of KAI's scale tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import options, terminal
from kailab.cli.error_messages import ReportingGroup
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from benchmarks.lab_runs.measured import BenchmarkResult


@click.group(
    "lab_runs", cls=ReportingGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
def app() -> None:
    """Measure the time from Jobs to running pods, by phase."""


@app.command()
@click.option("--fleet", default="scale-500", help="The fleet: a name or a file.")
@click.option("--jobs", type=int, help="Number of one-GPU Jobs; default: one per GPU.")
@click.option("--backend", default="embedded", help="Backend: embedded or controlplane.")
@options.components
@click.option(
    "--kai-bin",
    "kai",
    type=options.PATH,
    help="Backend controlplane: folder of a real KAI's binaries, to compare with.",
)
@options.kai_crds
@click.option(
    "--kai-pods", type=click.IntRange(min=1), show_default="300", help="Number of pods for KAI, which is slow."
)
@options.output
def fill(
    fleet: str,
    jobs: int | None,
    backend: str,
    components: Path | None,
    kai: Path | None,
    kai_crds: Path | None,
    kai_pods: int | None,
    output: TextOrJson,
) -> None:
    """Fill an idle cluster with one-GPU Jobs. On a control plane, measure pods per second from submission to binding, beside the
    highest rate that the API server accepts from a bare client."""
    from benchmarks import lab_runs
    from kailab.cluster.backends import BACKENDS
    from kailab.cluster.registry import FLAGS
    from kailab.errors import InputError
    from kailab.undertest.selection import check_options

    options = {"components": components, "kai": kai, "kai_crds": kai_crds, "kai_pods": kai_pods}
    BACKENDS.check(backend)
    check_options(backend, None, options)
    for name in ("kai_crds", "kai_pods"):
        if kai is None and options[name] is not None:
            raise InputError(f"{FLAGS[name]} needs {FLAGS['kai']}")
    if backend == "kubeconfig":
        raise InputError("a fill needs a cluster of its own; expected the backend embedded, controlplane or kind")
    if backend != "embedded":
        from benchmarks.lab_runs.livefill import KAI_PODS, live_fill

        kai_pods = kai_pods or KAI_PODS
        with terminal.spinner("filling") as say:
            live = live_fill(
                fleet, jobs, backend, components=components, kai=kai, kai_crds=kai_crds, kai_pods=kai_pods, tell=say
            )
        terminal.say(json.dumps(live.as_dict(), indent=2) if output is TextOrJson.json else live.text())
        return
    with terminal.progress_bars() as tell:
        outcome = lab_runs.fill(fleet, jobs, tell)
    _show(outcome, output)


@app.command()
@click.option("--fleet", default="scale-500", help="The fleet: a name or a file.")
@click.option("--jobs", type=int, help="Number of one-GPU Jobs; default: one per GPU.")
@click.option("--singles", type=int, default=5, help="Number of one-GPU reclaims, one after the other.")
@options.output
def reclaim(fleet: str, jobs: int | None, singles: int, output: TextOrJson) -> None:
    """Fill a cluster with over-quota work, then reclaim it for its owner: one GPU at a time, half of the cluster for one gang, all of it
    for one-GPU Jobs."""
    from benchmarks import lab_runs

    with terminal.progress_bars() as tell:
        outcome = lab_runs.reclaim(fleet, jobs, singles, progress=tell)
    _show(outcome, output)


@app.command()
@click.option("--fleet", default="scale-500", help="The fleet: a name or a file.")
@click.option("--pods", type=int, default=10, help="Pods of the gang, each requesting a whole node.")
@options.output
def unschedulable(fleet: str, pods: int, output: TextOrJson) -> None:
    """Measure the time to find that a gang can't run, because one GPU less can be reclaimed than it needs."""
    from benchmarks import lab_runs

    with terminal.progress_bars() as tell:
        outcome = lab_runs.unschedulable(fleet, pods, tell)
    _show(outcome, output)


@app.command()
@click.option("--nodes-per-rack", type=int, default=2, help="Nodes in each of 256 racks.")
@options.output
def gang(nodes_per_rack: int, output: TextOrJson) -> None:
    """Place one gang on a whole cluster of zones, blocks and racks, with and without a preferred level."""
    from benchmarks import lab_runs

    with terminal.progress_bars() as tell:
        outcome = lab_runs.gang(nodes_per_rack, tell)
    _show(outcome, output)


@app.command()
@click.option("--trace", type=options.PATH, help="Trace, as for `kailab replay`; default: openb's in $KAILAB_SHARED.")
@click.option("--fleet", default="", help="The fleet: a name, a file, or a list of nodes (.csv).")
@click.option("--load", type=click.IntRange(min=1), default=130, help="Requested GPUs in percent of the fleet.")
@click.option("--seed", type=int, default=0, help="Seed of the drawn jobs.")
@options.output
def mixed(trace: Path | None, fleet: str, load: int, seed: int, output: TextOrJson) -> None:
    """Submit jobs drawn from a trace, with fractional and whole GPUs, until no more fit."""
    from benchmarks import lab_runs

    with terminal.progress_bars() as tell:
        outcome = lab_runs.mixed(trace, fleet, load, seed, tell)
    _show(outcome, output)


@app.command()
@click.option("--for", "duration", default="5m", help="Duration: 60s, 30m.")
@click.option("--fleet", default="lesson", help="The fleet: a name or a file.")
@options.components
@options.output
def churn(duration: str, fleet: str, components: Path | None, output: TextOrJson) -> None:
    """A control plane under steady load (jobs arrive, finish, are reclaimed): does memory or anything else grow?"""
    from benchmarks.lab_runs.churn import churn as run
    from kailab.model.times import duration_seconds

    with terminal.spinner("churning") as tell:
        found = run(duration_seconds(duration), fleet, components=components, tell=tell)
    terminal.say(json.dumps(found.as_dict(), indent=2) if output is TextOrJson.json else found.text())


def _show(outcome: BenchmarkResult, output: TextOrJson) -> None:
    terminal.say(json.dumps(outcome.as_dict(), indent=2) if output is TextOrJson.json else outcome.text())


def main() -> None:
    """The entry point of `python -m benchmarks.lab_runs`."""
    app(prog_name="python -m benchmarks.lab_runs")
