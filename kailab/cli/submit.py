"""``submit``: work said in a line, with all that the scheduler wants to be told of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import completing, labfile, options, terminal

if TYPE_CHECKING:
    from kailab.lab import Lab

Object = dict[str, Any]
EVICTIONS = 1000
"""Kubernetes counts an evicted pod as a failure of its Job, and ends it after 6 of them."""


@click.command()
@click.argument("name", help="Of the Job.")
@click.option("--queue", "-q", required=True, shell_complete=completing.queues, help="The queue that it is work of.")
@click.option(
    "--pods", type=click.IntRange(1), default=1, help="So many pods: a gang, which starts whole or not at all."
)
@click.option("--gpus", type=click.IntRange(0), default=1, help="So many GPUs for each pod.")
@click.option("--each", "apart", is_flag=True, help="No gang: each pod starts when there is a place for it.")
@click.option("--priority", default="", show_default=False, help="A PriorityClass; that of training if not given.")
@click.option("--image", default="busybox:1.36", help="What the pods would run.")
@click.option("--output", "-o", type=click.Choice(("yaml",)), help="Print the manifest, and submit nothing.")
@options.namespace
@options.settle
@options.state
def submit(
    name: str,
    queue: str,
    pods: int,
    gpus: int,
    apart: bool,
    priority: str,
    image: str,
    output: str | None,
    namespace: str,
    settle: bool,
    state: Path,
) -> None:
    """Submit a Job without writing a manifest: the queue, the gang and the scheduler are said in KAI's words for you.

    \b
    kailab submit llama --queue team-a --pods 4 --gpus 8
    kailab submit llama --queue team-a --pods 4 --gpus 8 -o yaml > llama.yaml"""
    from kailab.cli.lab_changes import LabChanges, settled
    from kailab.cli.naming import full_name
    from kailab.model.manifests import dump

    job = _job(name, queue, pods, gpus, image, gang=not apart)
    if priority:
        job["spec"]["template"]["spec"]["priorityClassName"] = priority
    if output:
        terminal.say(dump([job]).rstrip("\n"))
        return
    with labfile.changed(state) as lab:
        _possible(lab, name, queue, priority, namespace)
        before = LabChanges(lab)
        applied = lab.apply(job, namespace=namespace)
        told = settled(lab, before, settle)
    for warning in applied.warnings:
        terminal.warn(warning)
    for change in applied.changes:
        terminal.say(f"{full_name(change.kind, change.name)} {change.what}")
    terminal.notice(told)


def _possible(lab: Lab, name: str, queue: str, priority: str, namespace: str) -> None:
    """Raises InputError for a queue or a class that is not there, and for a name that is taken."""
    from kailab.errors import InputError

    for option, kind, wanted in (("--queue", "Queue", queue), ("--priority", "PriorityClass", priority)):
        there = sorted(one["metadata"]["name"] for one in lab.cluster.list(kind))
        if wanted and wanted not in there:
            raise InputError(f"{option}: there is no {kind} {wanted!r}; there are: {', '.join(there) or 'none'}")
    if any(one["metadata"]["name"] == name for one in lab.cluster.list("Job", namespace)):
        raise InputError(f"there is a Job {name!r} already in namespace {namespace}; take another name")


def _job(name: str, queue: str, pods: int, gpus: int, image: str, gang: bool) -> Object:
    from kailab.model import labels

    shown = {labels.QUEUE: queue}
    metadata: Object = {"name": name, "labels": shown}
    if gang:
        metadata["annotations"] = {labels.BATCH_MIN_MEMBER: str(pods)}
    container: Object = {"name": "work", "image": image, "command": ["sleep", "infinity"]}
    if gpus:
        container["resources"] = {"limits": {labels.GPU_RESOURCE: gpus}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "backoffLimit": EVICTIONS,
            "template": {
                "metadata": {"labels": {"app": name, **shown}},
                "spec": {"schedulerName": labels.SCHEDULER_NAME, "restartPolicy": "Never", "containers": [container]},
            },
        },
    }
