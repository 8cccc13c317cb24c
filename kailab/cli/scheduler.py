"""``kailab scheduler``: run kailab's scheduler as a process, and print manifests that run it in a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import configurations, options, terminal
from kailab.cli.error_messages import DEBUG, CommandGroup
from kailab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kailab.cluster.protocol import Cluster
    from kailab.scheduler.observers import Observer


@click.group(cls=CommandGroup)
def group() -> None:
    """Run kailab's scheduler on a Kubernetes cluster."""


_LEASE_OPTIONS = (
    "lease_namespace", "lease_name", "lease_duration", "renew_deadline", "retry_period", "identity",
)  # fmt: skip


@group.command()
@click.option(
    "--kubeconfig",
    type=options.PATH,
    show_envvar=True,
    envvar="KUBECONFIG",
    help="Kubeconfig of the cluster. Not needed in a pod, which uses its service account.",
)
@click.option("--context", show_default="the current one", help="Context of the kubeconfig.")
@options.path_option("--scheduler-config", "config", help="Scheduler configuration file in KAI's format.")
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    show_default="kai-scheduler",
    help="Schedule the pods with this schedulerName. May be repeated.",
)
@click.option(
    "--node-pool", default="default", help="Schedule only nodes, queues and PodGroups of this pool (a KAI shard)."
)
@click.option("--grouping/--no-grouping", default=True, help="Create PodGroups for pods.")
@click.option("--queue-status/--no-queue-status", default=True, help="Write the status of queues and PodGroups.")
@click.option(
    "--gpu-reservation/--no-gpu-reservation",
    "gpu_reservations",
    default=True,
    help="Reserve each shared GPU with a pod, so that other schedulers see it taken.",
)
@click.option(
    "--resource-claims/--no-resource-claims", "claims", default=True, help="Allocate the ResourceClaims of pods (DRA)."
)
@click.option("--leader-elect/--no-leader-elect", default=True, help="Act only while holding the Lease.")
@click.option("--lease-namespace", default="kai-scheduler", help="The namespace of the Lease.")
@click.option(
    "--lease-name",
    default="",
    show_default="kailab-scheduler, with the node pool's name",
    help="The name of the Lease.",
)
@click.option(
    "--lease-duration",
    type=options.FiniteFloatRange(min=0),
    default=15.0,
    help="Seconds that others wait for a holder that no longer renews.",
)
@click.option(
    "--renew-deadline",
    type=options.FiniteFloatRange(min=0),
    default=10.0,
    help="Seconds after which a holder that can't renew stops writing.",
)
@click.option("--retry-period", type=options.FiniteFloatRange(min=0), default=2.0, help="Seconds between renewals.")
@click.option(
    "--identity",
    default="",
    show_default="host and a UUID",
    help="The holder's name in the Lease; each scheduler needs its own.",
)
@click.option(
    "--bind-address", "address", default="127.0.0.1", help="The address on which health and metrics are served."
)
@click.option(
    "--port", type=click.IntRange(min=0, max=65535), default=0, help="The port; 0: a free one, printed on stderr."
)
@click.option(
    "--schedule-period",
    "period",
    type=options.FiniteFloatRange(min=0.0),
    default=0.1,
    help="At least this many seconds from cycle to cycle.",
)
@options.path_option("--decisions", help="Keep the latest decisions in this file, for explanations.")
@options.flag(
    "--record-cycles", "cycles", help="Also record the input of each cycle, for `kailab evidence capture` and `replay`."
)
def run(
    kubeconfig: Path | None,
    context: str | None,
    config: Path | None,
    names: tuple[str, ...],
    node_pool: str,
    grouping: bool,
    queue_status: bool,
    gpu_reservations: bool,
    claims: bool,
    leader_elect: bool,
    lease_namespace: str,
    lease_name: str,
    lease_duration: float,
    renew_deadline: float,
    retry_period: float,
    identity: str,
    address: str,
    port: int,
    period: float,
    decisions: Path | None,
    cycles: bool,
) -> None:
    """Schedule pods until SIGTERM or SIGINT.

    Of several schedulers that share a Lease, one acts and the others stand by. A scheduler that loses the Lease stops
    writing at once and becomes a standby."""
    from kailab.scheduler.service.election import LeaseTerms
    from kailab.scheduler.service.process import ServiceProcess, default_identity, read_connection
    from kailab.scheduler.service.service_loop import ServiceSettings

    lease_options = [f"--{name.replace('_', '-')}" for name in _LEASE_OPTIONS if options.is_given(name)]
    if lease_options and not leader_elect:
        raise InputError(f"{', '.join(lease_options)}: needs leader election; leave out --no-leader-elect")
    terminal.log_to_stderr(debug=bool(os.environ.get(DEBUG)))
    connection = read_connection(kubeconfig, context)
    scheduler_settings = configurations.settings_of_file(config)
    if not lease_name:
        lease_name = "kailab-scheduler" if node_pool == "default" else f"kailab-scheduler-{node_pool}"
    settings = ServiceSettings(
        config=scheduler_settings.engine,
        usage=scheduler_settings.usage,
        scheduler_names=tuple(names or ("kai-scheduler",)),
        node_pool=node_pool,
        grouping=grouping,
        queue_status=queue_status,
        gpu_reservations=gpu_reservations,
        claims=claims,
        period=period,
        identity=identity or default_identity(),
        lease=lease_name,
    )
    process = ServiceProcess(
        connection,
        settings,
        (lease_namespace, lease_name) if leader_elect else None,
        LeaseTerms(lease_duration, renew_deadline, retry_period),
        address=address,
        port=port,
        observers=_observers(decisions, cycles),
    )
    terminal.notice(f"{connection.title}: scheduling pods of {', '.join(settings.scheduler_names)}")
    process.run()


def _observers(decisions: Path | None, cycles: bool) -> Callable[[Cluster], Iterable[Observer]]:
    from kailab.evidence.decision_file import DecisionFile

    if decisions is None and cycles:
        raise InputError("--record-cycles needs --decisions FILE, because cycles are recorded beside the decisions")
    return lambda cluster: [DecisionFile(decisions, cluster.now(), cycles=cycles)] if decisions is not None else []


@group.command()
@click.option("--image", required=True, help="Image with kailab that the cluster can pull.")
@click.option("--namespace", "-n", default="kai-scheduler", help="Namespace of the scheduler.")
def manifests(image: str, namespace: str) -> None:
    """Print the manifests that run the scheduler in a cluster: ServiceAccount, exactly the rights it uses, Deployment."""
    from kailab.scheduler.service.manifests import scheduler_manifests

    terminal.say(scheduler_manifests(namespace, image).rstrip())
