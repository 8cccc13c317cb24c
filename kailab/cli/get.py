"""``get``: which objects are shown (names, labels, field selectors), in which order, and in which format (tables, objects, names, JSONPath, custom columns)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click
from click.shell_completion import CompletionItem

from kailab.cli import completion, labfile, options, terminal
from kailab.cli.options import Format
from kailab.errors import InputError
from kailab.model.objects import Object

if TYPE_CHECKING:
    from kailab.cli.jsonpath import JsonPath, JsonPathTemplate
    from kailab.cli.object_tables import TableOptions
    from kailab.cli.selection import KindNames
    from kailab.lab import Lab


JSONPATH, COLUMNS = "jsonpath", "custom-columns"
NONE = "<none>"


class OutputFormat(NamedTuple):
    """``form``: a ``Format``, ``jsonpath`` or ``custom-columns``; ``argument``: what stands behind its ``=``."""

    form: str
    argument: str = ""


class OutputParameter(click.ParamType):
    """Reads ``wide``, ``json``, ``jsonpath={.items[*].metadata.name}``, ``custom-columns=NAME:.metadata.name``."""

    name = "output"
    choices = (*(one.value for one in Format if one.value), f"{JSONPATH}=TEMPLATE", f"{COLUMNS}=HEADER:PATH,...")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> OutputFormat:
        if isinstance(value, OutputFormat):
            return value
        form, equals, argument = str(value).partition("=")
        if equals and form in (JSONPATH, COLUMNS):
            return OutputFormat(form, argument)
        if not equals and form in tuple(Format):
            return OutputFormat(form)
        return self.fail(f"{value!r} is not one of {', '.join(map(repr, self.choices))}.", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        words = (one.partition("=") for one in self.choices)
        return [CompletionItem(word + equals) for word, equals, _ in words if word.startswith(incomplete)]

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(self.choices)}]"


class CustomColumn(NamedTuple):
    header: str
    path: JsonPath


def parse_custom_columns(text: str) -> list[CustomColumn]:
    """Those of ``custom-columns``. Raises InputError."""
    from kailab.cli.jsonpath import parse_relaxed_path
    from kailab.errors import InputError

    found = []
    for part in _split_columns(text):
        header, colon, path = part.partition(":")
        if not colon or not header.strip() or not path.strip():
            raise InputError(f"-o {COLUMNS}: {part!r}: expected HEADER:PATH, as in NAME:.metadata.name")
        found.append(CustomColumn(header.strip(), parse_relaxed_path(path)))
    return found


def _split_columns(text: str) -> list[str]:
    """Between commas; not those within brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "[(") - (sign in "])")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def custom_cells(wanted: Sequence[CustomColumn], obj: Object) -> list[str]:
    """One row."""
    return [",".join(_cell(value) for value in column.path.values(obj)) or NONE for column in wanted]


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def parse_template(text: str) -> JsonPathTemplate:
    """Of ``jsonpath``. Raises InputError."""
    from kailab.cli.jsonpath import JsonPathTemplate

    return JsonPathTemplate(text)


def shown_value(objects: Sequence[Object], single: bool) -> Object:
    """What ``json``, ``yaml`` and ``jsonpath`` are about: the object asked for by name, else a List."""
    return objects[0] if single else {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def format_value(found: Object, form: str) -> str:
    """``form``: json or yaml."""
    if form == Format.json:
        return json.dumps(found, indent=4)
    from kailab.model.manifests import dump

    return dump([found]).removeprefix("---\n").rstrip("\n")


_TERM = re.compile(r"\s*([A-Za-z][\w./-]*?)\s*(==|=|!=)\s*(\S*)\s*")

field_selector = click.option(
    "--field-selector",
    default="",
    show_default=False,
    help="Only objects with these values, of any field: status.phase=Pending,spec.nodeName!=a100-0.",
)
sort_by = click.option(
    "--sort-by", default="", show_default=False, help="Order by a field: .metadata.creationTimestamp."
)


class FieldSelector:
    """Whether an object has the values. A field that is not there has the value ""."""

    def __init__(self, text: str) -> None:
        """Raises InputError."""
        self._terms = _terms(text)

    def __call__(self, obj: Object) -> bool:
        from kailab.model.kind import field_of

        return all((_text(field_of(obj, field)) == value) is wanted for field, wanted, value in self._terms)

    def absent(self, objects: Sequence[Object]) -> list[str]:
        """Fields that are held against a value and that none of the objects has: most likely mistyped."""
        from kailab.model.kind import field_of

        if not objects:
            return []
        asked = dict.fromkeys(field for field, _, value in self._terms if value)
        return [field for field in asked if all(field_of(obj, field) is None for obj in objects)]


def _terms(text: str) -> list[tuple[str, bool, str]]:
    """(field, whether it has to have the value, value)."""
    terms = []
    for part in text.split(",") if text else []:
        term = _TERM.fullmatch(part)
        if term is None:
            raise InputError(f"--field-selector: {part!r}: expected FIELD=VALUE or FIELD!=VALUE")
        terms.append((term[1], term[2] != "!=", term[3]))

    return terms


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def sort_objects(objects: Sequence[Object], path: JsonPath) -> list[Object]:
    """Those without the field first; numbers by size, also those in text. Raises InputError where none has the field."""
    found = {id(obj): path.values(obj) for obj in objects}
    if objects and not any(found.values()):
        raise InputError(f"--sort-by: none of the objects has the field {path.text}")
    return sorted(objects, key=lambda obj: [_rank(value) for value in found[id(obj)][:1]])


def _rank(value: Any) -> tuple[int, list[tuple[int, float, str]]]:
    if isinstance(value, bool | int | float):
        return (0, [(0, value, "")])
    # As people count: node-9 comes before node-10.
    parts = re.split(r"(\d{1,15})", value) if isinstance(value, str) else [str(value)]
    return (1, [(0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in parts if part])


ObjectsOfKinds: TypeAlias = list[tuple[str, list[Object]]]
"""Kind keys with objects."""


class ObjectQuery:
    """What is asked for. ``namespace``: None: all."""

    def __init__(
        self,
        what: Sequence[str],
        namespace: str | None,
        selector: str,
        field_selector: str = "",
        sort_by: str = "",
        may_lack: bool = False,
    ) -> None:
        """``may_lack``: names that there are not are left out. Raises InputError."""
        self._what, self.namespace, self._selector, self._may_lack = what, namespace, selector, may_lack
        self._fields = FieldSelector(field_selector)
        self._narrowed = [name for name, given in (("-l", selector), ("--field-selector", field_selector)) if given]
        self._warned: set[str] = set()
        self._order = None
        if sort_by:
            from kailab.cli.jsonpath import parse_relaxed_path

            self._order = parse_relaxed_path(sort_by)

    def of(self, lab: Lab) -> tuple[list[KindNames], ObjectsOfKinds]:
        """The kinds asked for, and for each the objects that there are. Raises InputError, NotFound."""
        from kailab.cli.selection import parse_targets
        from kailab.errors import InputError

        wanted = parse_targets(self._what, lab.cluster.kinds())
        if self._narrowed and any(target.names for target in wanted):
            raise InputError(f"names can't go with {' and '.join(self._narrowed)}")
        found: ObjectsOfKinds = []
        for target in wanted:
            there = self._objects(lab, target)
            self._warn_of(target.kind, there)
            objects = [obj for obj in there if self._fields(obj)]
            found.append((target.kind, objects if self._order is None else sort_objects(objects, self._order)))
        return wanted, found

    def _warn_of(self, kind: str, there: Sequence[Object]) -> None:
        """Of fields that none of them has; once, as a watch looks again and again."""
        for field in self._fields.absent(there):
            said = f"--field-selector: no {kind} has the field {field}"
            if said not in self._warned:
                terminal.warn(said)
            self._warned.add(said)

    def _objects(self, lab: Lab, target: KindNames) -> list[Object]:
        from kailab.errors import InputError
        from kailab.model.kinds import is_namespaced

        kind, names = target
        if not names:
            return lab.cluster.list(kind, self.namespace if is_namespaced(kind) else None, self._selector or None)
        if self.namespace is None and is_namespaced(kind):
            raise InputError("names can't go with -A; say which namespace with -n")
        return [one for name in names if (one := self._named(lab, kind, name)) is not None]

    def _named(self, lab: Lab, kind: str, name: str) -> Object | None:
        from kailab.cli.selection import complete_name, suggest_name
        from kailab.errors import NotFound

        space = lab.space_of(kind, name, self.namespace)
        try:
            found: Object = lab.get(kind, complete_name(lab, kind, name, space), self.namespace)
        except NotFound as error:
            if self._may_lack:
                return None
            raise NotFound(f"{error}{suggest_name(lab, kind, name, space)}") from None
        return found


@click.command()
@click.argument(
    "what",
    nargs=-1,
    required=True,
    shell_complete=completion.objects,
    help="Kinds (pods,queues), KIND NAME..., or KIND/NAME...",
)
@options.namespace
@options.all_namespaces
@options.selector
@field_selector
@sort_by
@click.option(
    "--output",
    "-o",
    "form",
    type=OutputParameter(),
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
    form: OutputFormat,
    ignore_not_found: bool,
    no_headers: bool,
    show_labels: bool,
    label_columns: tuple[str, ...],
    watch: bool,
    state: Path,
) -> None:
    """Show objects: pods, queues, podgroups, nodes, jobs, events ... and any other kind there is."""
    from kailab.cli.object_tables import TableOptions, watch_objects
    from kailab.errors import InputError

    asked = ObjectQuery(
        what, None if all_namespaces else namespace, selector, field_selector, sort_by, ignore_not_found
    )
    labels = tuple(label for given in label_columns for label in given.split(",") if label)
    shown = TableOptions(form.form == Format.wide, all_namespaces, labels, show_labels, no_headers)
    tabular = form.form in (Format.table, Format.wide)
    if not tabular and (labels or show_labels):
        raise InputError("--show-labels and -L go with tables")
    if watch and (not tabular or sort_by):
        raise InputError(
            "--watch goes with tables, and shows changes in the order in which they come: without -o or --sort-by"
        )
    if watch:
        watch_objects(state, asked.of, shown)
        return
    columns = parse_custom_columns(form.argument) if form.form == COLUMNS else []
    template = parse_template(form.argument) if form.form == JSONPATH else None
    with labfile.read_lab(state) as lab:
        wanted, found = asked.of(lab)
        objects = [obj for _, each in found for obj in each]
        single = len(wanted) == 1 and len(wanted[0].names) == 1
        if template is not None:
            terminal.say(template.render(shown_value(objects, single)), end=False)
        elif form.form in (Format.json, Format.yaml):
            terminal.say(format_value(shown_value(objects, single), form.form))
        elif form.form == Format.tree:
            _tree(lab, found, no_headers)
        elif form.form == Format.turns:
            _turns(lab, found, no_headers)
        elif not objects:
            terminal.notice(_nothing(wanted, asked.namespace))
        elif form.form == Format.name:
            _names(found)
        elif columns:
            from kailab.cli.table import render_table

            rows = [custom_cells(columns, obj) for obj in objects]
            terminal.say(render_table([column.header for column in columns], rows, no_headers=no_headers))
        else:
            _tables(lab, found, shown, several=len(wanted) > 1)


def _nothing(wanted: list[KindNames], namespace: str | None) -> str:
    from kailab.model.kinds import is_namespaced

    if namespace is None or not any(is_namespaced(target.kind) for target in wanted):
        return "No resources found"
    return f"No resources found in {namespace} namespace."


def _names(found: ObjectsOfKinds) -> None:
    from kailab.cli.selection import full_name

    for kind, objects in found:
        for obj in objects:
            terminal.say(full_name(kind, obj["metadata"]["name"]))


def _tables(lab: Lab, found: ObjectsOfKinds, shown: TableOptions, several: bool) -> None:
    from kailab.cli.object_tables import TableContext, object_table
    from kailab.cli.table import render_table

    view = TableContext(lab)
    for number, (kind, objects) in enumerate((kind, objects) for kind, objects in found if objects):
        if number:
            terminal.say("")
        headers, rows = object_table(view, kind, objects, shown, several)
        terminal.say(render_table(headers, rows, no_headers=shown.no_headers))


def _tree(lab: Lab, found: ObjectsOfKinds, no_headers: bool) -> None:
    from kailab.cli.object_tables import QUEUE_TREE_HEADERS, TableContext, queue_tree
    from kailab.cli.table import render_table
    from kailab.errors import InputError

    if [kind for kind, _ in found] != ["Queue"]:
        raise InputError("-o tree is for queues: kailab get queues -o tree")
    terminal.say(render_table(QUEUE_TREE_HEADERS, queue_tree(TableContext(lab), found[0][1]), no_headers=no_headers))


def _turns(lab: Lab, found: ObjectsOfKinds, no_headers: bool) -> None:
    from kailab.cli.table import render_table
    from kailab.errors import InputError
    from kailab.explain.serving_order import rank_queues

    if [kind for kind, _ in found] != ["Queue"]:
        raise InputError("-o turns is for queues: kailab get queues -o turns")
    wanted = {queue["metadata"]["name"] for queue in found[0][1]}
    rows = [
        [str(one.place), one.queue, str(one.waiting), one.next, one.refused, one.because]
        for one in rank_queues(lab.picture())
        if one.queue in wanted
    ]
    if not rows:
        terminal.notice("nothing that could run in its queue waits")
        return
    terminal.say(render_table(["PLACE", "QUEUE", "WAITING", "NEXT", "REFUSED", "WHY"], rows, no_headers=no_headers))
