"""``get``: the query (names, labels, field selectors), the order, and the output formats (tables, objects, names, JSONPath, custom columns)."""

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
from kailab.cli.table import natural_order, render_table
from kailab.errors import InputError, NotFound
from kailab.model.objects import Object, name_of

if TYPE_CHECKING:
    from kailab.cli.jsonpath import JsonPath, JsonPathTemplate
    from kailab.cli.object_tables import TableOptions
    from kailab.cli.selection import KindNames
    from kailab.lab import Lab


JSONPATH, COLUMNS = "jsonpath", "custom-columns"
NONE = "<none>"


class OutputFormat(NamedTuple):
    """``form``: a ``Format``, ``jsonpath`` or ``custom-columns``; ``argument``: the text after its ``=``."""

    form: str
    argument: str = ""


class OutputParameter(click.ParamType):
    """Parses ``wide``, ``json``, ``jsonpath={.items[*].metadata.name}``, ``custom-columns=NAME:.metadata.name``."""

    name = "output"
    choices = (*(form.value for form in Format if form.value), f"{JSONPATH}=TEMPLATE", f"{COLUMNS}=HEADER:PATH,...")

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
        forms = (choice.partition("=") for choice in self.choices)
        return [CompletionItem(form + equals) for form, equals, _ in forms if form.startswith(incomplete)]

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(self.choices)}]"


class CustomColumn(NamedTuple):
    header: str
    path: JsonPath


def parse_custom_columns(text: str) -> list[CustomColumn]:
    """Parse the columns of ``custom-columns``. Raises InputError."""
    from kailab.cli.jsonpath import parse_relaxed_path

    columns = []
    for part in _split_columns(text):
        header, colon, path = part.partition(":")
        if not colon or not header.strip() or not path.strip():
            raise InputError(f"-o {COLUMNS}: {part!r}: expected HEADER:PATH, as in NAME:.metadata.name")
        columns.append(CustomColumn(header.strip(), parse_relaxed_path(path)))
    return columns


def _split_columns(text: str) -> list[str]:
    """Split at commas that are not within brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "[(") - (char in "])")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def custom_cells(columns: Sequence[CustomColumn], obj: Object) -> list[str]:
    return [",".join(_cell(value) for value in column.path.values(obj)) or NONE for column in columns]


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def parse_template(text: str) -> JsonPathTemplate:
    """Parse the template of ``jsonpath``. Raises InputError."""
    from kailab.cli.jsonpath import JsonPathTemplate

    return JsonPathTemplate(text)


def shown_value(objects: Sequence[Object], single: bool) -> Object:
    """The value that ``json``, ``yaml`` and ``jsonpath`` print: the single object that was named, else a List."""
    return objects[0] if single else {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def format_objects(value: Object, form: str) -> str:
    """``form``: json or yaml."""
    if form == Format.json:
        return json.dumps(value, indent=4)
    from kailab.model.yamltext import write_documents

    return write_documents([value]).removeprefix("---\n").rstrip("\n")


_TERM = re.compile(r"\s*([A-Za-z][\w./-]*?)\s*(==|=|!=)\s*(\S*)\s*")

field_selector = options.text_option(
    "--field-selector",
    help="Only objects whose fields have these values; any field: status.phase=Pending,spec.nodeName!=a100-0.",
)
sort_by = options.text_option("--sort-by", help="Sort by a field: .metadata.creationTimestamp.")


class FieldSelector:
    """Tests whether an object has the values. A missing field has the value ""."""

    def __init__(self, text: str) -> None:
        """Raises InputError."""
        self._terms = _terms(text)

    def __call__(self, obj: Object) -> bool:
        from kailab.model.kind import field_of

        return all((_text(field_of(obj, field)) == value) is equal for field, equal, value in self._terms)

    def absent(self, objects: Sequence[Object]) -> list[str]:
        """Return the fields that are compared with a value and that no object has; they are probably mistyped."""
        from kailab.model.kind import field_of

        if not objects:
            return []
        compared = dict.fromkeys(field for field, _, value in self._terms if value)
        return [field for field in compared if all(field_of(obj, field) is None for obj in objects)]


def _terms(text: str) -> list[tuple[str, bool, str]]:
    """Parse into (field, True for = and False for !=, value)."""
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
    """Sort by a field: objects without it first; numbers by size, also within text. Raises InputError if no object has the field."""
    values = {id(obj): path.values(obj) for obj in objects}
    if objects and not any(values.values()):
        raise InputError(f"--sort-by: no object has the field {path.text}")
    return sorted(objects, key=lambda obj: [_sort_key(value) for value in values[id(obj)][:1]])


def _sort_key(value: Any) -> tuple[int, list[tuple[int, float, str]]]:
    if isinstance(value, bool | int | float):
        return (0, [(0, value, "")])
    return (1, natural_order(value) if isinstance(value, str) else [(1, 0.0, str(value))])


ObjectsOfKinds: TypeAlias = list[tuple[str, list[Object]]]
"""Kind keys with objects."""


class ObjectQuery:
    """A query for objects. ``namespace``: None means all."""

    def __init__(
        self,
        what: Sequence[str],
        namespace: str | None,
        selector: str,
        field_selector: str = "",
        sort_by: str = "",
        may_lack: bool = False,
    ) -> None:
        """``may_lack``: leave out names that do not exist. Raises InputError."""
        self._what, self.namespace, self._selector, self._may_lack = what, namespace, selector, may_lack
        self._fields = FieldSelector(field_selector)
        self._selectors = [name for name, text in (("-l", selector), ("--field-selector", field_selector)) if text]
        self._warned: set[str] = set()
        self._sort_path = None
        if sort_by:
            from kailab.cli.jsonpath import parse_relaxed_path

            self._sort_path = parse_relaxed_path(sort_by)

    def of(self, lab: Lab) -> tuple[list[KindNames], ObjectsOfKinds]:
        """Return the targets, and the matching objects of each kind. Raises InputError, NotFound."""
        from kailab.cli.selection import parse_targets

        targets = parse_targets(self._what, lab.cluster.kinds())
        if self._selectors and any(target.names for target in targets):
            raise InputError(f"names can't be combined with {' and '.join(self._selectors)}; use one of them")
        result: ObjectsOfKinds = []
        for target in targets:
            candidates = self._objects(lab, target)
            self._warn_of_absent_fields(target.kind, candidates)
            objects = [obj for obj in candidates if self._fields(obj)]
            result.append((target.kind, objects if self._sort_path is None else sort_objects(objects, self._sort_path)))
        return targets, result

    def _warn_of_absent_fields(self, kind: str, objects: Sequence[Object]) -> None:
        """Warn once of each field that no object has, although a watch queries again and again."""
        for field in self._fields.absent(objects):
            warning = f"--field-selector: no {kind} has the field {field}"
            if warning not in self._warned:
                terminal.warn(warning)
            self._warned.add(warning)

    def _objects(self, lab: Lab, target: KindNames) -> list[Object]:
        from kailab.model.kinds import is_namespaced

        kind, names = target
        if not names:
            return lab.cluster.list(kind, self.namespace if is_namespaced(kind) else None, self._selector or None)
        if self.namespace is None and is_namespaced(kind):
            raise InputError("names can't be combined with -A; give the namespace with -n")
        return [obj for name in names if (obj := self._get(lab, kind, name)) is not None]

    def _get(self, lab: Lab, kind: str, name: str) -> Object | None:
        from kailab.cli.selection import complete_name, suggest_name

        space = lab.space_of(kind, name, self.namespace)
        try:
            obj: Object = lab.get(kind, complete_name(lab, kind, name, space), self.namespace)
        except NotFound as error:
            if self._may_lack:
                return None
            raise NotFound(f"{error}{suggest_name(lab, kind, name, space)}") from None
        return obj


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
    help="Output format; queues also as a tree, or in the order in which they are served (turns).",
)
@options.flag("--ignore-not-found", help="Do not fail if an object does not exist.")
@options.flag("--no-headers", help="Omit the header line of tables.")
@options.flag("--show-labels", help="Show all labels in tables.")
@click.option(
    "--label-columns", "-L", multiple=True, metavar="LABEL", help="Show a label as a column. May be repeated."
)
@options.flag("--watch", "-w", help="After listing, show changes until Ctrl-C.")
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
    """List objects: pods, queues, podgroups, nodes, jobs, events ... and all other kinds in the lab."""
    from kailab.cli.object_tables import TableOptions, watch_objects

    query = ObjectQuery(
        what, None if all_namespaces else namespace, selector, field_selector, sort_by, ignore_not_found
    )
    labels = tuple(label for column in label_columns for label in column.split(",") if label)
    table = TableOptions(form.form == Format.wide, all_namespaces, labels, show_labels, no_headers)
    tabular = form.form in (Format.table, Format.wide)
    if not tabular and (labels or show_labels):
        raise InputError("--show-labels and -L apply to tables only; leave out -o, or use -o wide")
    if watch and (not tabular or sort_by):
        raise InputError(
            "--watch shows tables only, in the order of the changes; leave out --sort-by, and -o unless it is wide"
        )
    if watch:
        watch_objects(state, query.of, table)
        return
    columns = parse_custom_columns(form.argument) if form.form == COLUMNS else []
    template = parse_template(form.argument) if form.form == JSONPATH else None
    with labfile.read_lab(state) as lab:
        targets, result = query.of(lab)
        objects = [obj for _, of_kind in result for obj in of_kind]
        single = len(targets) == 1 and len(targets[0].names) == 1
        if template is not None:
            terminal.say(template.render(shown_value(objects, single)), end=False)
        elif form.form in (Format.json, Format.yaml):
            terminal.say(format_objects(shown_value(objects, single), form.form))
        elif form.form == Format.tree:
            _print_tree(lab, result, no_headers)
        elif form.form == Format.turns:
            _print_turns(lab, result, no_headers)
        elif not objects:
            terminal.notice(_no_resources(targets, query.namespace))
        elif form.form == Format.name:
            _print_names(result)
        elif columns:
            rows = [custom_cells(columns, obj) for obj in objects]
            terminal.say(render_table([column.header for column in columns], rows, no_headers=no_headers))
        else:
            _print_tables(lab, result, table, several=len(targets) > 1)


def _no_resources(targets: list[KindNames], namespace: str | None) -> str:
    from kailab.model.kinds import is_namespaced

    if namespace is None or not any(is_namespaced(target.kind) for target in targets):
        return "No resources found"
    return f"No resources found in {namespace} namespace."


def _print_names(result: ObjectsOfKinds) -> None:
    from kailab.cli.selection import kind_slash_name

    for kind, objects in result:
        for obj in objects:
            terminal.say(kind_slash_name(kind, name_of(obj)))


def _print_tables(lab: Lab, result: ObjectsOfKinds, options: TableOptions, several: bool) -> None:
    from kailab.cli.object_tables import TableContext, object_table

    view = TableContext(lab)
    for number, (kind, objects) in enumerate((kind, objects) for kind, objects in result if objects):
        if number:
            terminal.say("")
        headers, rows = object_table(view, kind, objects, options, several)
        terminal.say(render_table(headers, rows, no_headers=options.no_headers))


def _print_tree(lab: Lab, result: ObjectsOfKinds, no_headers: bool) -> None:
    from kailab.cli.object_tables import QUEUE_TREE_HEADERS, TableContext, queue_tree

    if [kind for kind, _ in result] != ["Queue"]:
        raise InputError("-o tree is for queues: kailab get queues -o tree")
    if not result[0][1]:
        terminal.notice("No resources found")
        return
    terminal.say(render_table(QUEUE_TREE_HEADERS, queue_tree(TableContext(lab), result[0][1]), no_headers=no_headers))


def _print_turns(lab: Lab, result: ObjectsOfKinds, no_headers: bool) -> None:
    from kailab.explain.serving_order import rank_queues

    if [kind for kind, _ in result] != ["Queue"]:
        raise InputError("-o turns is for queues: kailab get queues -o turns")
    names = {name_of(queue) for queue in result[0][1]}
    rows = [
        [str(turn.place), turn.queue, str(turn.waiting), turn.next, turn.refused, turn.because]
        for turn in rank_queues(lab.picture())
        if turn.queue in names
    ]
    if not rows:
        terminal.notice("no queue has waiting work that could run")
        return
    terminal.say(render_table(["PLACE", "QUEUE", "WAITING", "NEXT", "REFUSED", "WHY"], rows, no_headers=no_headers))
