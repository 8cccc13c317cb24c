"""``translate``: translate the policy kinds of documents about KAI, field by field, into settings that KAI has."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from kailab.cli import options, terminal
from kailab.errors import InputError

if TYPE_CHECKING:
    from kailab.advice.policykinds import Translation

OUTPUTS = ("text", "yaml", "config", "json")


@click.command()
@click.argument("bare", nargs=-1, metavar="FILE...")
@options.files
@click.option("--gpus", type=int, default=None, help="GPUs of the cluster, for weights that are a share of it.")
@click.option(
    "--output",
    "-o",
    type=click.Choice(OUTPUTS),
    default="text",
    help="text: each field; yaml: equivalent objects of KAI; config: the scheduler's configuration, with kailab's own policies.",
)
def translate(bare: tuple[str, ...], files: tuple[str, ...], gpus: int | None, output: str) -> None:
    """Translate policies of documents about KAI, field by field, into settings that KAI has: ResourceQuota, Quota, QueuePolicy,
    SchedulingPolicy, PreemptionPolicy, QueueMonitor, QueueDrainingPolicy and KAISchedulerConfig of kai.nvidia.com. KAI has none of these kinds.

    \b
    kailab translate policies.yaml -o yaml | kailab apply -f -
    kailab translate policies.yaml -o config > scheduler.yaml; kailab up --scheduler-config scheduler.yaml"""
    from kailab.advice.policykinds import translate as translated
    from kailab.model.manifests import load
    from kailab.model.yamltext import write_documents

    files = (*bare, *files)
    if not files:
        raise InputError("there is nothing to translate; expected FILE, FOLDER or -")
    options.check_stdin(files.count("-"), "-")
    if gpus is not None and gpus < 1:
        raise InputError(f"--gpus: {gpus}; expected a number of GPUs")
    translation = translated(load(files), None if gpus is None else Fraction(gpus))
    if output == "yaml":
        terminal.say(write_documents(translation.objects).rstrip("\n"))
    elif output == "config":
        terminal.say(write_documents([translation.configuration]).rstrip("\n"))
    elif output == "json":
        terminal.say_json(_data(translation))
    else:
        _print(translation)
    if translation.passed_over:
        names = ", ".join(sorted({str(manifest.object["kind"]) for manifest in translation.passed_over}))
        terminal.notice(f"skipped, because they are no policies of the documents: {names}")


def _print(translation: Translation) -> None:
    for manifest in dict.fromkeys(field.given.manifest.name for field in translation.fields):
        terminal.say(manifest)
        for field in translation.fields:
            if field.given.manifest.name == manifest:
                terminal.say(f"  {field.given.path}: {_value(field.given.value)}")
                terminal.say(f"      {field.meaning.verdict}: {field.meaning.text}")


def _value(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _data(translation: Translation) -> dict[str, object]:
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
        for field in translation.fields
    ]
    return {"fields": fields, "objects": translation.objects, "configuration": translation.configuration}
