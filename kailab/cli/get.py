"""``get``: objects as tables, or as they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import completing, labfile, narrowing, options, output, terminal
from kailab.cli.listing import Asked, Found
from kailab.cli.options import Format
from kailab.cli.output import Output, OutputType

if TYPE_CHECKING:
    from kailab.cli.naming import Target
    from kailab.cli.object_tables import Shown
    from kailab.lab import Lab


@click.command()
@click.argument(
    "what",
    nargs=-1,
    required=True,
    shell_complete=completing.objects,
    help="Kinds (pods,queues), KIND NAME..., or KIND/NAME...",
)
@options.namespace
@options.all_namespaces
@options.selector
@narrowing.field_selector
@narrowing.sort_by
@click.option(
    "--output",
    "-o",
    "form",
    type=OutputType(),
    default="",
    show_default=False,
    help="As a wide table, as objects, by name, by paths; queues also as a tree, or in the order in which they are served (turns).",
)
@click.option("--ignore-not-found", is_flag=True, help="Do not fail if an object is not there.")
@click.option("--no-headers", is_flag=True, help="Tables without their first line.")
@click.option("--show-labels", is_flag=True, help="Tables with all labels.")
@click.option("--label-columns", "-L", multiple=True, metavar="LABEL", help="A column for a label. May be repeated.")
@click.option("--watch", "-w", is_flag=True, help="Then go on, and show what changes until Ctrl-C.")
@options.state
def get(
    what: tuple[str, ...],
    namespace: str,
    all_namespaces: bool,
    selector: str,
    field_selector: str,
    sort_by: str,
    form: Output,
    ignore_not_found: bool,
    no_headers: bool,
    show_labels: bool,
    label_columns: tuple[str, ...],
    watch: bool,
    state: Path,
) -> None:
    """Show objects: pods, queues, podgroups, nodes, jobs, events ... and any other kind there is."""
    from kailab.cli.object_tables import Shown
    from kailab.errors import InputError

    asked = Asked(what, None if all_namespaces else namespace, selector, field_selector, sort_by, ignore_not_found)
    labels = tuple(label for given in label_columns for label in given.split(",") if label)
    shown = Shown(form.form == Format.wide, all_namespaces, labels, show_labels, no_headers)
    tabular = form.form in (Format.table, Format.wide)
    if not tabular and (labels or show_labels):
        raise InputError("--show-labels and -L go with tables")
    if watch and (not tabular or sort_by):
        raise InputError(
            "--watch goes with tables, and shows changes in the order in which they come: without -o or --sort-by"
        )
    if watch:
        from kailab.cli.object_watch import follow

        follow(state, asked, shown)
        return
    columns = output.columns(form.argument) if form.form == output.COLUMNS else []
    template = output.template(form.argument) if form.form == output.JSONPATH else None
    with labfile.looked_at(state) as lab:
        wanted, found = asked.of(lab)
        objects = [obj for _, each in found for obj in each]
        single = len(wanted) == 1 and len(wanted[0].names) == 1
        if template is not None:
            terminal.say(template.render(output.data(objects, single)), end=False)
        elif form.form in (Format.json, Format.yaml):
            terminal.say(output.as_text(output.data(objects, single), form.form))
        elif form.form == Format.tree:
            _tree(lab, found, no_headers)
        elif form.form == Format.turns:
            _turns(lab, found, no_headers)
        elif not objects:
            terminal.notice(_nothing(wanted, asked.namespace))
        elif form.form == Format.name:
            _names(found)
        elif columns:
            from kailab.cli.table import render

            rows = [output.cells(columns, obj) for obj in objects]
            terminal.say(render([column.header for column in columns], rows, no_headers=no_headers))
        else:
            _tables(lab, found, shown, several=len(wanted) > 1)


def _nothing(wanted: list[Target], namespace: str | None) -> str:
    from kailab.model.kinds import is_namespaced

    if namespace is None or not any(is_namespaced(target.kind) for target in wanted):
        return "No resources found"
    return f"No resources found in {namespace} namespace."


def _names(found: Found) -> None:
    from kailab.cli.naming import full_name

    for kind, objects in found:
        for obj in objects:
            terminal.say(full_name(kind, obj["metadata"]["name"]))


def _tables(lab: Lab, found: Found, shown: Shown, several: bool) -> None:
    from kailab.cli.columns import View
    from kailab.cli.object_tables import table
    from kailab.cli.table import render

    view = View(lab)
    for number, (kind, objects) in enumerate((kind, objects) for kind, objects in found if objects):
        if number:
            terminal.say("")
        headers, rows = table(view, kind, objects, shown, several)
        terminal.say(render(headers, rows, no_headers=shown.no_headers))


def _tree(lab: Lab, found: Found, no_headers: bool) -> None:
    from kailab.cli.columns import View
    from kailab.cli.queue_tree import HEADERS, tree
    from kailab.cli.table import render
    from kailab.errors import InputError

    if [kind for kind, _ in found] != ["Queue"]:
        raise InputError("-o tree is for queues: kailab get queues -o tree")
    terminal.say(render(HEADERS, tree(View(lab), found[0][1]), no_headers=no_headers))


def _turns(lab: Lab, found: Found, no_headers: bool) -> None:
    from kailab.cli.table import render
    from kailab.errors import InputError
    from kailab.lab.explain.serving_order import ranked

    if [kind for kind, _ in found] != ["Queue"]:
        raise InputError("-o turns is for queues: kailab get queues -o turns")
    wanted = {queue["metadata"]["name"] for queue in found[0][1]}
    rows = [
        [str(one.place), one.queue, str(one.waiting), one.next, one.refused, one.because]
        for one in ranked(lab.picture())
        if one.queue in wanted
    ]
    if not rows:
        terminal.notice("nothing that could run in its queue waits")
        return
    terminal.say(render(["PLACE", "QUEUE", "WAITING", "NEXT", "REFUSED", "WHY"], rows, no_headers=no_headers))
