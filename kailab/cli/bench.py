"""``bench``: how fast the lab is, in the shapes of KAI's scale tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kailab.cli import terminal
from kailab.cli.options import ComponentsOption, KaiCrdsOption, OutputOption, TextOrJson

if TYPE_CHECKING:
    from kailab.bench import Outcome

app = typer.Typer(
    help="Time the lab: jobs in, pods running, and where the time went.", no_args_is_help=True, rich_markup_mode=None
)
FleetOption = Annotated[str, typer.Option("--fleet", help="The fleet: a name or a file.")]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", help="Number of one-GPU Jobs; default: one per GPU.", show_default=False)
]


@app.command()
def fill(
    fleet: FleetOption = "scale-500",
    jobs: JobsOption = None,
    backend: Annotated[str, typer.Option("--backend", help="Where: embedded, or controlplane.")] = "embedded",
    components: ComponentsOption = None,
    kai: Annotated[
        Path | None,
        typer.Option(
            "--kai-bin", help="Backend controlplane: a real KAI's binaries, to measure beside.", show_default=False
        ),
    ] = None,
    kai_crds: KaiCrdsOption = None,
    kai_pods: Annotated[
        int | None,
        typer.Option("--kai-pods", min=1, help="Pods for that KAI, which takes long.", show_default="300"),
    ] = None,
    output: OutputOption = TextOrJson.text,
) -> None:
    """Fill an idle cluster with one-GPU Jobs. On a control plane: pods per second from submitted to bound, beside what the
    API server takes at most from a bare client."""
    from kailab import bench
    from kailab.cluster.backends import BACKENDS
    from kailab.cluster.choices import FLAGS
    from kailab.cluster.compatibility import check_options
    from kailab.errors import InputError

    options = {"components": components, "kai": kai, "kai_crds": kai_crds, "kai_pods": kai_pods}
    BACKENDS.check(backend)
    check_options(backend, None, options)
    for name in ("kai_crds", "kai_pods"):
        if kai is None and options[name] is not None:
            raise InputError(f"{FLAGS[name]} is for a KAI to measure beside: give {FLAGS['kai']} too")
    if backend == "kubeconfig":
        raise InputError(
            "a fill is measured in a cluster of its own: expected the backend embedded, controlplane or kind"
        )
    if backend != "embedded":
        from kailab.bench.livefill import KAI_PODS, live_fill

        kai_pods = kai_pods or KAI_PODS
        with terminal.waiting("filling") as say:
            live = live_fill(
                fleet, jobs, backend, components=components, kai=kai, kai_crds=kai_crds, kai_pods=kai_pods, tell=say
            )
        terminal.say(json.dumps(live.as_dict(), indent=2) if output is TextOrJson.json else live.text())
        return
    with terminal.progress_bars() as tell:
        outcome = bench.fill(fleet, jobs, tell)
    _show(outcome, output)


@app.command()
def reclaim(
    fleet: FleetOption = "scale-500",
    jobs: JobsOption = None,
    singles: Annotated[int, typer.Option(help="One-GPU reclaims made one at a time.")] = 5,
    output: OutputOption = TextOrJson.text,
) -> None:
    """A cluster full of over-quota work, and an owner who returns: for one GPU at a time, for half of the cluster in one
    gang, for all of it in one-GPU Jobs."""
    from kailab import bench

    with terminal.progress_bars() as tell:
        outcome = bench.reclaim(fleet, jobs, singles, progress=tell)
    _show(outcome, output)


@app.command()
def unschedulable(
    fleet: FleetOption = "scale-500",
    pods: Annotated[int, typer.Option(help="Pods of the gang, each asking for a whole node.")] = 10,
    output: OutputOption = TextOrJson.text,
) -> None:
    """How long it takes to say that a gang can't run, one GPU short of what may be reclaimed."""
    from kailab import bench

    with terminal.progress_bars() as tell:
        outcome = bench.unschedulable(fleet, pods, tell)
    _show(outcome, output)


@app.command()
def gang(
    nodes_per_rack: Annotated[int, typer.Option(help="256 racks of so many nodes.")] = 2,
    output: OutputOption = TextOrJson.text,
) -> None:
    """One gang over a whole cluster of zones, blocks and racks, with and without a preferred level."""
    from kailab import bench

    with terminal.progress_bars() as tell:
        outcome = bench.gang(nodes_per_rack, tell)
    _show(outcome, output)


@app.command()
def churn(
    duration: Annotated[str, typer.Option("--for", help="How long: 60s, 30m.")] = "5m",
    fleet: FleetOption = "lesson",
    components: ComponentsOption = None,
    output: OutputOption = TextOrJson.text,
) -> None:
    """A control plane under steady work, jobs arriving, finishing and being reclaimed: does anything grow?"""
    from kailab.bench.churn import churn as run
    from kailab.model.times import duration_seconds

    with terminal.waiting("churning") as tell:
        found = run(duration_seconds(duration), fleet, components=components, tell=tell)
    terminal.say(json.dumps(found.as_dict(), indent=2) if output is TextOrJson.json else found.text())


def _show(outcome: Outcome, output: TextOrJson) -> None:
    terminal.say(json.dumps(outcome.as_dict(), indent=2) if output is TextOrJson.json else outcome.text())
