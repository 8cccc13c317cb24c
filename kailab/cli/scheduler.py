"""``kailab scheduler``: kailab's scheduler as a process of its own, and the manifests that run it in a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kailab.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kailab.cluster.protocol import Cluster
    from kailab.scheduler.service import Follower

app = typer.Typer(help="Run kailab's scheduler on a Kubernetes cluster.", no_args_is_help=True, rich_markup_mode=None)


_OF_THE_LEASE = (
    "lease_namespace", "lease_name", "lease_duration", "renew_deadline", "retry_period", "identity",
)  # fmt: skip


def _check_lease(given: Callable[[str], bool], leader_elect: bool) -> None:
    from kailab.errors import InputError

    names = [f"--{name.replace('_', '-')}" for name in _OF_THE_LEASE if given(name)]
    if names and not leader_elect:
        raise InputError(f"{', '.join(names)}: without leader election there is no lease; leave out --no-leader-elect")


@app.command()
def run(
    command: typer.Context,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            envvar="KUBECONFIG",
            help="The cluster; in a pod its service account does.",
            show_default=False,
        ),
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", help="A context of the kubeconfig.", show_default="the current one")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--scheduler-config", help="Scheduler configuration, a file as KAI reads it.", show_default=False),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--scheduler-name",
            help="The schedulerName of pods that are its to place. May be repeated.",
            show_default="kai-scheduler",
        ),
    ] = None,
    node_pool: Annotated[
        str, typer.Option("--node-pool", help="Only nodes, queues and PodGroups of this pool (a KAI shard).")
    ] = "default",
    grouping: Annotated[bool, typer.Option("--grouping/--no-grouping", help="Make PodGroups of pods.")] = True,
    queue_status: Annotated[
        bool, typer.Option("--queue-status/--no-queue-status", help="Write the status of queues and PodGroups.")
    ] = True,
    reservations: Annotated[
        bool,
        typer.Option(
            "--gpu-reservation/--no-gpu-reservation",
            help="Hold shared GPUs by a pod each, so that others see them taken.",
        ),
    ] = True,
    claims: Annotated[
        bool, typer.Option("--resource-claims/--no-resource-claims", help="Allocate the ResourceClaims of pods (DRA).")
    ] = True,
    leader_elect: Annotated[
        bool,
        typer.Option(
            "--leader-elect/--no-leader-elect", help="Act only while holding the lease, of several schedulers."
        ),
    ] = True,
    lease_namespace: Annotated[str, typer.Option("--lease-namespace", help="Where the Lease is.")] = "kai-scheduler",
    lease_name: Annotated[
        str, typer.Option("--lease-name", help="Its name.", show_default="kailab-scheduler, with the node pool's name")
    ] = "",
    lease_duration: Annotated[
        float, typer.Option("--lease-duration", help="Seconds that others wait for a holder that no longer renews.")
    ] = 15.0,
    renew_deadline: Annotated[
        float, typer.Option("--renew-deadline", help="Seconds after which a holder that can't renew stops writing.")
    ] = 10.0,
    retry_period: Annotated[float, typer.Option("--retry-period", help="Seconds between renewals.")] = 2.0,
    identity: Annotated[
        str,
        typer.Option("--identity", help="The name in the Lease: no two may share one.", show_default="host and a UUID"),
    ] = "",
    address: Annotated[str, typer.Option("--bind-address", help="Where health and metrics are served.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: a free one, told on stderr.")] = 0,
    period: Annotated[
        float, typer.Option("--schedule-period", min=0.0, help="At least so many seconds from cycle to cycle.")
    ] = 0.1,
    decisions: Annotated[
        Path | None,
        typer.Option(
            "--decisions", help="Keep the latest decisions in this file, for explanations.", show_default=False
        ),
    ] = None,
) -> None:
    """Schedule until SIGTERM or SIGINT.

    Of several that share a lease one acts and the others stand by. One that loses its lease writes nothing any more from
    that moment, and stands by too."""
    from kailab.scheduler import settings_of
    from kailab.scheduler.service import Settings, Terms
    from kailab.scheduler.service.process import Process, connection_of, default_identity

    _check_lease(lambda name: getattr(command.get_parameter_source(name), "name", "") == "COMMANDLINE", leader_elect)
    _log_to_stderr()
    connection = connection_of(kubeconfig, context)
    read = settings_of(config)
    for notice in read.notices:
        terminal.notice(notice)
    if not lease_name:
        lease_name = "kailab-scheduler" if node_pool == "default" else f"kailab-scheduler-{node_pool}"
    settings = Settings(
        config=read.engine,
        usage=read.usage,
        scheduler_names=tuple(names or ("kai-scheduler",)),
        node_pool=node_pool,
        grouping=grouping,
        queue_status=queue_status,
        reservations=reservations,
        claims=claims,
        period=period,
        identity=identity or default_identity(),
        lease=lease_name,
    )
    process = Process(
        connection,
        settings,
        (lease_namespace, lease_name) if leader_elect else None,
        Terms(lease_duration, renew_deadline, retry_period),
        address=address,
        port=port,
        followers=_followers(decisions),
    )
    terminal.notice(f"{connection.told}: scheduling pods of {', '.join(settings.scheduler_names)}")
    process.run()


def _followers(decisions: Path | None) -> Callable[[Cluster], Iterable[Follower]]:
    from kailab.evidence.decision_file import DecisionFile

    return lambda cluster: [DecisionFile(decisions, cluster.now())] if decisions is not None else []


def _log_to_stderr() -> None:
    import logging

    level = logging.DEBUG if os.environ.get("KAILAB_DEBUG") else logging.INFO
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("kailab").setLevel(level)


@app.command()
def manifests(
    image: Annotated[
        str, typer.Option("--image", help="An image with kailab in it, that the cluster can pull.", show_default=False)
    ],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where it is to run.")] = "kai-scheduler",
) -> None:
    """Print what runs the scheduler in a cluster: a ServiceAccount, exactly the rights that it uses, a Deployment."""
    from kailab.scheduler.service.manifests import manifests as rendered

    terminal.say(rendered(namespace, image).rstrip())
