"""The records of cycles as evidence keeps them: cut by the same rules as the objects that they were read from.

Records hold names, amounts, selectors, tolerations, labels of nodes, and a few sentences (why no node takes a pod). Labels that
nothing in the lab selects by are left out, which changes no decision. What was left out of objects is looked for in all other
text but names. Texts that were different stay different, so that nothing becomes equal that was not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.engine.decisions import Decisions
from kailab.engine.snapshot.changes import Changes
from kailab.engine.snapshot.records import Node, Shape, Task
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.errors import InputError
from kailab.evidence.cycles import RecordedCycle
from kailab.evidence.entries import RecordedStep
from kailab.evidence.redaction import Redaction
from kailab.evidence.scrubbing import Scrubber
from kailab.model import yamltext
from kailab.model.manifests import dump

Mapped = TypeVar("Mapped")


def record_names(cycles: Iterable[RecordedCycle]) -> set[str]:
    """Names and UIDs of all records, and of the GPUs that pods share: they are no secrets, and are kept wherever they stand."""
    found: set[str] = set()
    for cycle in cycles:
        records = cycle.changes.set
        found.update(group for bind in cycle.decisions.binds for group in bind.gpu_groups)
        found.update(group for promise in cycle.decisions.pipelines for group in promise.gpu_groups)
        for task in records.tasks:
            found.update((task.uid, task.name, task.namespace, *task.gpu_groups))
        for group in records.podgroups:
            found.update((group.uid, group.name, group.namespace, group.queue))
        found.update(node.name for node in records.nodes)
        found.update(queue.name for queue in records.queues)
        found.update(topology.name for topology in records.topologies)
    return found


class RecordCutter:
    """``keeps_label``: whether evidence keeps a label, for nodes. ``scrubbed``: text without what is left out. ``cut``: the texts
    of records of which something was left out."""

    def __init__(self, keeps_label: Callable[[str], bool], scrubbed: Callable[[str], str]) -> None:
        self.cut: set[str] = set()
        self._keeps_label = keeps_label
        self._scrubbed = scrubbed
        self._unseen: list[RecordedCycle] = []
        self._read: set[str] = set()  # label keys that records select by
        self._known: dict[str, str] = {}
        self._given: set[str] = set()  # what stands for a cut text already
        self._shapes: dict[int, Shape] = {}  # by identity: equal tasks share one shape

    def cycles(self, cycles: Sequence[RecordedCycle]) -> Iterator[RecordedCycle]:
        self.look_at(cycles)
        for cycle in cycles:
            yield self._cycle(cycle)

    def look_at(self, cycles: Sequence[RecordedCycle]) -> None:
        """All cycles, before any is cut: a task that comes later may select by a label of a node that came first."""
        self._unseen += cycles

    def record(self, record: Any) -> Any:
        """One record of any kind."""
        self._see()
        if isinstance(record, Node):
            return self._node(record)
        return self._task(record) if isinstance(record, Task) else record

    def decisions(self, decisions: Decisions) -> Decisions:
        """What a cycle decided, but for what waits."""
        # Binds and promises hold names, amounts and codes only; sentences are in evictions and reasons to wait.
        return structs.replace(decisions, evictions=_mapped(decisions.evictions, self._text))

    def _see(self) -> None:
        # Only when something is to be cut: there may be very many records.
        while self._unseen:
            _selecting(self._unseen.pop().changes.set, self._read)

    def _cycle(self, cycle: RecordedCycle) -> RecordedCycle:
        self._see()
        return structs.replace(
            cycle,
            changes=self._changes(cycle.changes),
            decisions=self.decisions(cycle.decisions),
            pending=_mapped(cycle.pending, self._text),
        )

    def _changes(self, changes: Changes) -> Changes:
        records = changes.set
        # Only in these may something have to be cut; queues, PodGroups and topologies are names and amounts.
        if not (records.nodes or records.tasks or records.claims):
            return changes
        kept = Snapshot(
            nodes=tuple(self._node(node) for node in records.nodes),
            queues=records.queues,
            podgroups=records.podgroups,
            tasks=tuple(self._task(task) for task in records.tasks),
            topologies=records.topologies,
            claims=_mapped(records.claims, self._record_text),
        )
        return structs.replace(changes, set=kept)

    def _node(self, node: Node) -> Node:
        labels = tuple(pair for pair in node.labels if pair[0] in self._read or self._keeps_label(pair[0]))
        return _mapped(structs.replace(node, labels=labels), self._record_text)

    def _task(self, task: Task) -> Task:
        shape = self._shapes.get(id(task.shape))
        if shape is None:
            shape = self._shapes[id(task.shape)] = _mapped(task.shape, self._record_text)
        return task if shape is task.shape else structs.replace(task, shape=shape)

    def _record_text(self, text: str) -> str:
        new = self._text(text)
        # Counted in records only: they are what is decided on. A sentence that was cut can't change a decision.
        if new is not text:
            self.cut.add(text)
        return new

    def _text(self, text: str) -> str:
        new = self._known.get(text)
        if new is None:
            new = self._scrubbed(text)
            if new != text:
                plain, number = new, 1
                # Two texts that became equal could make two selectors or devices equal, and so change what is decided.
                while new in self._given:
                    number += 1
                    new = f"{plain} ({number})"
                self._given.add(new)
            else:
                new = text
            self._known[text] = new
        return text if new == text else new


def _selecting(records: Snapshot, keys: set[str]) -> None:
    """Label keys by which shapes and topologies look at nodes."""
    for topology in records.topologies:
        keys.update(topology.levels)
    for shape in {id(task.shape): task.shape for task in records.tasks}.values():
        needs = [*shape.selector, *(need for term in shape.terms for need in term.requirements)]
        needs += (need for term in shape.preferred for need in term.requirements)
        keys.update(need.key for need in needs)
        keys.update(term.topology_key for term in (*shape.affinity, *shape.anti_affinity))


def _mapped(value: Mapped, text: Callable[[str], str]) -> Mapped:
    """The same with every text in it replaced, but for keys; itself where nothing was."""
    new: Any = value
    if isinstance(value, str):
        new = text(value) if type(value) is str else value  # codes of an enumeration are no free text
    elif isinstance(value, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            before = getattr(value, name)
            after = _mapped(before, text)
            if after is not before:
                changed[name] = after
        new = structs.replace(value, **changed) if changed else value
    elif isinstance(value, tuple):
        items = [_mapped(one, text) for one in value]
        if any(a is not b for a, b in zip(items, value)):
            # A named tuple is made by its fields, a plain one from a list.
            make: Any = getattr(type(value), "_make", tuple)
            new = make(items)
    elif isinstance(value, list):
        items = [_mapped(one, text) for one in value]
        new = items if any(a is not b for a, b in zip(items, value)) else value
    elif isinstance(value, Mapping):
        kept = {key: _mapped(one, text) for key, one in value.items()}
        new = kept if any(kept[key] is not one for key, one in value.items()) else value
    return new


# What was cut of a lab that goes on, kept from one look to the next: objects and entries do not change, so only new ones are cut anew.

_MANY = 100
"""So many new texts to be left out are looked for one by one."""


class _CutObject(NamedTuple):
    """``source`` is held, so that no other object takes its identity."""

    source: Any
    kept: Any
    left_out: frozenset[str]
    fields: frozenset[str]
    words: frozenset[str]


class ChangedObjects(NamedTuple):
    """What is another since the look before, in a look: objects as they are kept, by kind."""

    new: dict[str, list[Any]]
    gone: dict[str, list[Any]]


class CutCache:
    """Of one lab. Words that were kept once are no secrets later: a name stays in text when its object is gone. ``generation`` counts how
    often all had to be cut anew."""

    def __init__(self) -> None:
        self.generation = 0
        self._selected: set[str] = set()
        self._learned: dict[int, tuple[Any, frozenset[str]]] = {}
        self._objects: dict[int, _CutObject] = {}
        self._looks: dict[str, dict[str, dict[int, _CutObject]]] = {}
        self._given: dict[str, Mapping[str, Sequence[Any]]] = {}
        self._held: Counter[str] = Counter()
        self._manifests: dict[int, tuple[msgspec.Raw, Any]] = {}
        self._named = 0
        self._words: set[str] = set()
        self._new_words: set[str] = set()
        self._left_out: set[str] = set()
        self._scrubber: Scrubber | None = None

    def learn(self, redaction: Redaction, objects: Sequence[Any]) -> None:
        """As ``Redaction.learn``, of a list that does not change."""
        known = self._learned.get(id(objects))
        if known is None:
            one = Redaction()
            one.learn(objects)
            known = self._learned[id(objects)] = (objects, frozenset(one.selected))
        redaction.selected |= known[1]

    def cut(self, redaction: Redaction, obj: Any, words: Callable[[Any], set[str]]) -> Any:
        """As ``Redaction.object``, of an object that stays. ``words``: those of what is kept that are no secrets."""
        self._select(redaction)
        known = self._objects.get(id(obj))
        if known is None:
            known = self._objects[id(obj)] = self._cut(obj, words, redaction.applied)
        redaction.left_out |= known.left_out
        redaction.fields |= known.fields
        return known.kept

    def look(
        self, redaction: Redaction, name: str, look: Mapping[str, Sequence[Any]], words: Callable[[Any], set[str]]
    ) -> ChangedObjects:
        """Cut the objects of a look, those that were not there before; what was left out of any is known then."""
        self._select(redaction)
        looks, fresh = self._looks.setdefault(name, {}), ChangedObjects({}, {})
        same, self._given[name] = self._given.get(name) is look, look
        for kind, objects in () if same else look.items():
            before = looks.get(kind, {})
            here = looks[kind] = {id(obj): before.get(id(obj)) or self._cut(obj, words) for obj in objects}
            fresh.new[kind] = [cut.kept for key, cut in here.items() if key not in before]
            gone = [cut for key, cut in before.items() if key not in here]
            fresh.gone[kind] = [cut.kept for cut in gone]
            self._held.update(text for key, cut in here.items() if key not in before for text in cut.left_out)
            self._held.subtract(text for cut in gone for text in cut.left_out)
        redaction.left_out |= {text for text, count in self._held.items() if count > 0}
        return fresh

    def kept(self, name: str, kind: str, obj: Any) -> Any:
        """What is kept of an object of a look."""
        return self._looks[name][kind][id(obj)].kept

    def _select(self, redaction: Redaction) -> None:
        if redaction.selected != self._selected:
            # Labels that nothing selected by are kept now.
            self._selected = set(redaction.selected)
            self._objects.clear()
            self._looks.clear()
            self._given.clear()
            self._held.clear()
            self.generation += 1

    def _cut(self, obj: Any, words: Callable[[Any], set[str]], applied: bool = False) -> _CutObject:
        one = Redaction()
        one.applied = applied
        one.selected = self._selected
        kept = one.object(obj)
        found = frozenset(words(kept))
        self._new_words |= found - self._words
        return _CutObject(obj, kept, frozenset(one.left_out), frozenset(one.fields), found)

    def decoded(self, manifest: msgspec.Raw) -> Any:
        """The objects of a manifest, the same ones each time."""
        known = self._manifests.get(id(manifest))
        if known is None:
            known = self._manifests[id(manifest)] = (manifest, msgspec.json.decode(manifest))
        return known[1]

    def names(self, cycles: Sequence[RecordedCycle]) -> None:
        """Take in the names of cycles' records, of those that came behind the ones of before."""
        self._new_words |= record_names(cycles[self._named :]) - self._words
        self._named = len(cycles)

    def scrubber(self, left_out: set[str]) -> Scrubber:
        """For what was left out by now. It stays left out when its object is gone."""
        spared, self._words = self._new_words - self._words, self._words | self._new_words
        self._new_words = set()
        more = left_out - self._left_out
        self._left_out |= more
        if self._scrubber is None or len(more) > _MANY:
            self._scrubber = Scrubber(self._left_out, self._words)
            self.generation += 1
            return self._scrubber
        otherwise = bool(spared) and self._scrubber.spare(spared)
        if more:
            otherwise |= self._scrubber.leave_out(more, self._words)
        self.generation += otherwise
        return self._scrubber


# What of a lab's objects and texts goes into its evidence: the one gate, for objects, manifests and free text alike.

ObjectsByFile = Mapping[str, Sequence[Object]]
"""File -> the objects of a kind."""

BEFORE, AFTER = "before", "after"

HEADER = """\
# {name}: the objects that were applied, written anew by kailab without what no scheduling decision reads.
# Left out: {fields}. See evidence/README.md, "What is left out".
"""


class Sanitizer:
    """``manifests``: objects by file; ``patches``: (kind, patch); ``refused``: texts and objects that were not taken.
    ``names``: what is no secret though no object here is called so any more. ``cuts``: of a lab that goes on, what was cut before;
    it has its own ``names``, keeps the objects of looks, and ``fresh`` tells what is another of the last one."""

    def __init__(
        self,
        manifests: Sequence[tuple[str, Sequence[Object]]],
        before: ObjectsByFile,
        after: ObjectsByFile,
        patches: Sequence[tuple[str, Object]] = (),
        refused: Sequence[str | Object] = (),
        names: Collection[str] = (),
        cuts: CutCache | None = None,
    ) -> None:
        self._redaction = redaction = Redaction()
        self._names = names
        self._cuts = cuts
        # First of all, which labels selectors name, and only then cut: a selector may come after the labels it is
        # about.
        for _, objects in manifests:
            self._learn(objects)
        for objects in before.values():
            self._learn(objects)
        redaction.learn(patch for _, patch in patches)
        # All is cut here, before anybody can ask for text: the scrubber has to know everything that was left out.
        redaction.applied = True
        self._applied = [(name, *self._cut(objects)) for name, objects in manifests]
        redaction.applied = False
        # From here on what is cut is nothing of the last manifest, whose header tells the fields collected so far.
        redaction.fields = set()
        # Most objects are the same at both looks: each is cut once.
        self.fresh = ChangedObjects({}, {})
        if cuts is None:
            cut = {key: redaction.object(obj) for key, obj in _by_identity(before, after).items()}
            self._before, self._after = _replaced(before, cut), _replaced(after, cut)
        else:
            cuts.look(redaction, BEFORE, before, _named)
            self.fresh = cuts.look(redaction, AFTER, after, _named)
        self._patches = [self._patch(kind, patch) for kind, patch in patches]
        for one in refused:
            self._refused(one)

    @cached_property
    def manifests(self) -> dict[str, bytes]:
        """File -> YAML text, in the order in which they were applied."""
        found = {}
        for name, objects, fields in self._applied:
            told = ", ".join(["comments", *sorted(fields)])
            found[name] = (HEADER.format(name=name, fields=told) + dump(self.text.value(objects))).encode()
        return found

    @cached_property
    def _looks(self) -> tuple[ObjectsByFile, ObjectsByFile]:
        # By identity once more: an object that is the same at both looks was cut into one copy.
        scrubbed = {key: self.text.value(obj) for key, obj in _by_identity(self._before, self._after).items()}
        return _replaced(self._before, scrubbed), _replaced(self._after, scrubbed)

    @property
    def before(self) -> ObjectsByFile:
        """The first look, cut."""
        return self._looks[0]

    @property
    def after(self) -> ObjectsByFile:
        """The last look, cut."""
        return self._looks[1]

    @cached_property
    def text(self) -> Scrubber:
        """Cuts free text."""
        if self._cuts is not None:
            return self._cuts.scrubber(self._redaction.left_out)
        return Scrubber(self._redaction.left_out, self._words())

    @property
    def cut(self) -> int:
        """How many different texts were left out."""
        return len(self._redaction.left_out)

    def keeps_label(self, key: str) -> bool:
        """Whether a label of that key is kept."""
        return self._redaction.keeps_label(key)

    def step(self, step: RecordedStep) -> RecordedStep:
        """A step as it is kept."""
        if step.patch is None:
            return step
        return structs.replace(step, patch=self._patch(step.kind, step.patch))

    def fleet(self, definition: Mapping[str, Any]) -> bytes:
        """A fleet file; notes on its nodes that nobody reads are left out, as on the nodes themselves."""
        pools = [
            {key: self._redaction.notes(value) if key == "annotations" else value for key, value in pool.items()}
            for pool in definition.get("pools", ())
        ]
        return dump([{**definition, "pools": pools}]).encode()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _cut(self, objects: Iterable[Object]) -> tuple[list[Object], set[str]]:
        fields: set[str] = set()
        self._redaction.fields = fields
        return [self._object(obj, _told) for obj in objects], fields

    def _learn(self, objects: Sequence[Object]) -> None:
        if self._cuts is None:
            self._redaction.learn(objects)
        else:
            self._cuts.learn(self._redaction, objects)

    def _object(self, obj: Object, words: Callable[[Object], set[str]]) -> Object:
        if self._cuts is None:
            return self._redaction.object(obj)
        kept: Object = self._cuts.cut(self._redaction, obj, words)
        return kept

    def _patch(self, kind: str, patch: Object) -> Object:
        # A patch is cut by the rules of its kind, which it need not name itself; somebody asked for it, as for a manifest.
        self._redaction.applied = True
        kept = self._redaction.object({**patch, "kind": kind.partition(".")[0]})
        self._redaction.applied = False
        return kept if "kind" in patch else {key: value for key, value in kept.items() if key != "kind"}

    def _refused(self, one: str | Object) -> None:
        """Only what is not kept of it matters."""
        if isinstance(one, str):
            try:
                found = [value for value, _ in yamltext.read_documents(one)]
            except InputError:
                # Text that is not YAML can't be cut field by field, so all of it counts as cut, line by line.
                self._redaction.left_out.update(one.splitlines())
                return
        else:
            found = [one]
        for value in found:
            if isinstance(value, dict):
                self._redaction.object(value)
            else:
                self._redaction.left_out.add(str(value))

    def _words(self) -> set[str]:
        """What is kept, but for messages: names, labels, queues. They are no secrets, and stay in free text too."""
        found: set[str] = set(self._names)
        for _, objects, _ in self._applied:
            for obj in objects:
                found |= _told(obj)
        for looks in (self._before, self._after):
            for objects in looks.values():
                for obj in objects:
                    found |= _named(obj)
        return found


def _by_identity(*looks: ObjectsByFile) -> dict[int, Object]:
    return {id(obj): obj for look in looks for objects in look.values() for obj in objects}


def _replaced(looks: ObjectsByFile, by: Mapping[int, Object]) -> dict[str, list[Object]]:
    """``by``: the identity of an object -> what stands in its place."""
    return {name: [by[id(obj)] for obj in objects] for name, objects in looks.items()}


def _told(obj: Object) -> set[str]:
    found: set[str] = set()
    _texts(obj, found)
    return found


def _named(obj: Object) -> set[str]:
    """Of the looks only the metadata: names and labels stand there."""
    return _told(obj.get("metadata") or {})


def _texts(value: Any, found: set[str]) -> None:
    if isinstance(value, str):
        found.add(value)
    elif isinstance(value, dict):
        for key, inside in value.items():
            if key != "message":
                _texts(inside, found)
    elif isinstance(value, list):
        for inside in value:
            _texts(inside, found)
