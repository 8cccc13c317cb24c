"""``translate``: the policy kinds of documents about KAI, field by field: what of KAI's acts so."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from kailab.cli import terminal

if TYPE_CHECKING:
    from kailab.advice.policykinds.translating import Translation

OUTPUTS = ("text", "yaml", "config", "json")


@click.command()
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--gpus", type=int, default=None, help="GPUs of the cluster, for weights that are shares of it.")
@click.option(
    "--output",
    "-o",
    type=click.Choice(OUTPUTS),
    default="text",
    help="text: each field; yaml: KAI's objects that act so; config: the scheduler's file, with kailab's own policies.",
)
def translate(files: tuple[str, ...], gpus: int | None, output: str) -> None:
    """Say field by field what acts as a policy of the documents about KAI: ResourceQuota, Quota, QueuePolicy, SchedulingPolicy,
    PreemptionPolicy, QueueMonitor, QueueDrainingPolicy and KAISchedulerConfig of kai.nvidia.com. KAI knows none of these kinds.

    \b
    kailab translate policies.yaml -o yaml | kailab apply -f -
    kailab translate policies.yaml -o config > scheduler.yaml; kailab up --scheduler-config scheduler.yaml"""
    from kailab.advice.policykinds.translating import translate as translated
    from kailab.errors import InputError
    from kailab.model.manifests import load
    from kailab.model.yamltext import write_documents

    if not files:
        raise InputError("say what to translate: FILE, FOLDER or -")
    if files.count("-") > 1:
        raise InputError("stdin (-) can be read once only")
    if gpus is not None and gpus < 1:
        raise InputError(f"--gpus: {gpus}; expected a number of GPUs")
    found = translated(load(files), None if gpus is None else Fraction(gpus))
    if output == "yaml":
        terminal.say(write_documents(found.objects).rstrip("\n"))
    elif output == "config":
        terminal.say(write_documents([found.configuration]).rstrip("\n"))
    elif output == "json":
        terminal.say(json.dumps(_data(found), indent=2))
    else:
        _say(found)
    if found.passed_over:
        names = ", ".join(sorted({str(one.object["kind"]) for one in found.passed_over}))
        terminal.notice(f"passed over, being no policies of the documents: {names}")


def _say(found: Translation) -> None:
    for manifest in dict.fromkeys(field.given.manifest.name for field in found.fields):
        terminal.say(manifest)
        for field in found.fields:
            if field.given.manifest.name == manifest:
                terminal.say(f"  {field.given.path}: {_value(field.given.value)}")
                terminal.say(f"      {field.meaning.verdict}: {field.meaning.text}")


def _value(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _data(found: Translation) -> dict[str, object]:
    fields = [
        {
            "object": field.given.manifest.name,
            "file": field.given.manifest.file,
            "line": field.given.manifest.where(field.given.path).line,
            "field": field.given.path,
            "value": field.given.value,
            "verdict": field.meaning.verdict.name.lower(),
            "meaning": field.meaning.text,
        }
        for field in found.fields
    ]
    return {"fields": fields, "objects": found.objects, "configuration": found.configuration}
