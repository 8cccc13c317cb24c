"""Decides what of a lab's objects, records and texts goes into its evidence. Everything in the evidence passes through here.

``Sanitizer`` cuts manifests, objects and patches by ``redaction`` and gives a ``Scrubber`` for free text. ``RecordCutter`` applies the same rules to the records of
cycles: names, amounts, selectors, tolerations and labels are kept; labels of nodes that nothing selects by are left out, which changes no decision; texts
that differed before still differ. ``CutCache`` keeps cut objects of a running lab, so that each reading only cuts new ones.

``Scrubber`` removes from free text what was left out of objects. A webhook's refusal, an event or a failure may quote it. Three rules: a text
that was left out is cut wherever it is quoted, plain, escaped or in base64; each of its words that looks like a credential is cut; and text
in the form of a credential is always cut. Words that are kept elsewhere (names, labels, queues) stay.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
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
from kailab.evidence.entries import EntryType, RecordedStep
from kailab.evidence.redaction import LEFT_OUT, Redaction, is_common_word
from kailab.model import decoding, yamltext
from kailab.model.yamltext import write_documents

_SHORTEST = 6
"""Shorter texts (``yes``, ``8080``) are not cut, because they occur everywhere."""

_LONGEST_SEARCHED = 4096  # longer texts are not searched for in base64
_WORD = re.compile(r"[^\s\"'`=,;()\[\]{}<>|&\\]+")
# Ordinary words and options: ``learning-rate``, ``batchSize``. A word with digits is not ordinary.
_PLAIN_WORD = re.compile(r"[A-Z]?[a-z]*(?:-[a-z]+|[A-Z][a-z]+)*[.:!?]?")
_FORMS = re.compile(
    r"(?P<head>[a-z][a-z0-9+.-]*://)[^\s/@\"']+@"
    r"|(?P<kind>\b(?:Bearer|Basic)\s+)[A-Za-z0-9+/_=.~-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    re.DOTALL,
)


class Scrubber:
    """``left_out``: texts that no object of the evidence contains. ``kept``: words that the objects contain."""

    def __init__(self, left_out: Iterable[str], kept: Iterable[str]) -> None:
        # Indexed by their first characters, so that each place of a text costs one look-up, however many texts were left out.
        self._by_start: dict[str, list[str]] = {}
        self._words: set[str] = set()
        self._memo: dict[str, str] = {}
        # A part of a kept word can't be cut without damaging that word.
        known = "\n".join(sorted(set(kept)))
        self._leave_out(left_out, lambda form: form in known)

    def _leave_out(self, left_out: Iterable[str], is_kept: Callable[[str], bool]) -> tuple[set[str], set[str]]:
        """Add texts to cut. Return the added texts and words."""
        texts: set[str] = set()
        words: set[str] = set()
        for text in set(left_out):
            for form in (text, *_decoded(text)):
                form = form.strip()
                if len(form) >= _SHORTEST and not is_kept(form):
                    texts.add(form)
                words.update(word for word in _WORD.findall(form) if _may_be_credential(word) and not is_kept(word))
        texts |= {form for text in texts if len(text) <= _LONGEST_SEARCHED for form in _written(text)}
        for secret in texts:
            if secret not in (known := self._by_start.setdefault(secret[:_SHORTEST], [])):
                known.append(secret)
        self._words |= words
        return texts, words

    def leave_out(self, left_out: Iterable[str], kept: Collection[str]) -> bool:
        """Add texts to cut. ``kept``: as in the constructor. Return True if this changes texts that were scrubbed before."""
        texts, words = self._leave_out(left_out, lambda form: any(form in word for word in kept))
        new = texts | words
        if not new or not any(new_text in text for text in self._memo for new_text in new):
            return False
        self._memo.clear()
        return True

    def spare(self, kept: Iterable[str]) -> bool:
        """Add kept words. Return True if this changes texts that were scrubbed before."""
        known = "\n".join(kept)
        words = {word for word in self._words if word in known}
        texts = [text for texts in self._by_start.values() for text in texts if text in known]
        if not words and not texts:
            return False
        self._words -= words
        for text in texts:
            self._by_start[text[:_SHORTEST]].remove(text)
        self._memo.clear()
        return True

    def text(self, text: str) -> str:
        """Scrub a text; a mark replaces what is cut."""
        if len(text) < _SHORTEST:
            return text
        scrubbed = self._memo.get(text)
        if scrubbed is None:
            scrubbed = self._memo[text] = self._scrubbed(text)
        return scrubbed

    def value(self, value: Any) -> Any:
        """Scrub all strings of a JSON value. Returns the value itself if nothing was cut."""
        return _map_texts(value, self.text)

    def entry(self, entry: EntryType) -> EntryType:
        """Scrub all strings of an entry. Returns the entry itself if nothing was cut."""
        plain = msgspec.to_builtins(entry)
        new = self.value(plain)
        return entry if new is plain else decoding.convert(new, type(entry))

    def entries(self, entries: Iterable[EntryType]) -> list[EntryType]:
        """Scrub several entries."""
        return [self.entry(entry) for entry in entries]

    def _scrubbed(self, text: str) -> str:
        new = text
        starts = self._by_start
        ends = len(text) - _SHORTEST + 1
        quoted = (
            {secret for at in range(ends) for secret in starts.get(text[at : at + _SHORTEST], ())} if starts else set()
        )
        # Longest first, because a text that is part of another would leave its rest.
        for secret in sorted(quoted, key=lambda secret: (-len(secret), secret)):
            new = new.replace(secret, LEFT_OUT)
        # After whole texts, which may consist of ordinary words.
        if self._words:
            new = _WORD.sub(lambda match: LEFT_OUT if match[0] in self._words else match[0], new)
        new = _FORMS.sub(
            lambda match: f"{match['head'] or match['kind'] or ''}{LEFT_OUT}{'@' if match['head'] else ''}", new
        )
        return text if new == text else new


def _may_be_credential(word: str) -> bool:
    """True if a word is long enough for a credential, and neither an ordinary word nor an option name."""
    return len(word) >= 8 and _PLAIN_WORD.fullmatch(word.lstrip("-")) is None


def _written(text: str) -> Iterable[str]:
    """The quoted forms of a text: in base64, in JSON, in source code."""
    yield base64.b64encode(text.encode()).decode()
    # Escaping changes the text, so that it would not be found as a whole.
    if not text.isalnum():
        yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1])


def _decoded(text: str) -> Iterable[str]:
    """The decoded text, if a text is base64, as in ``data`` of a Secret."""
    if len(text) % 4 or len(text) < 8:
        return
    try:
        yield base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return


Mapped = TypeVar("Mapped")


def record_names(cycles: Iterable[RecordedCycle]) -> set[str]:
    """Names and UIDs of all records and shared GPUs. They are kept in all texts."""
    names: set[str] = set()
    for cycle in cycles:
        records = cycle.changes.set
        names.update(group for bind in cycle.decisions.binds for group in bind.gpu_groups)
        names.update(group for promise in cycle.decisions.pipelines for group in promise.gpu_groups)
        for task in records.tasks:
            names.update((task.uid, task.name, task.namespace, *task.gpu_groups))
        for group in records.podgroups:
            names.update((group.uid, group.name, group.namespace, group.queue))
        names.update(node.name for node in records.nodes)
        names.update(queue.name for queue in records.queues)
        names.update(topology.name for topology in records.topologies)
    return names


class RecordCutter:
    """Cuts records. ``keeps_label``: decides about labels of nodes. ``scrubbed``: removes from a text what is left out. ``cut``: the texts of records that were
    changed."""

    def __init__(self, keeps_label: Callable[[str], bool], scrubbed: Callable[[str], str]) -> None:
        self.cut: set[str] = set()
        self._keeps_label = keeps_label
        self._scrubbed = scrubbed
        self._unseen: list[RecordedCycle] = []
        self._read: set[str] = set()  # label keys that selectors of records name
        self._known: dict[str, str] = {}
        self._given: set[str] = set()  # replacements in use
        self._shapes: dict[int, Shape] = {}  # by identity: equal tasks share a shape

    def cycles(self, cycles: Sequence[RecordedCycle]) -> Iterator[RecordedCycle]:
        self.look_at(cycles)
        for cycle in cycles:
            yield self._cycle(cycle)

    def look_at(self, cycles: Sequence[RecordedCycle]) -> None:
        """Read cycles before any is cut, because a later task may select by a label of an earlier node."""
        self._unseen += cycles

    def record(self, record: Any) -> Any:
        """Cut one record of any kind."""
        self._see()
        if isinstance(record, Node):
            return self._node(record)
        return self._task(record) if isinstance(record, Task) else record

    def decisions(self, decisions: Decisions) -> Decisions:
        """Cut the decisions of a cycle, except its pending entries."""
        # Only evictions and pending reasons have sentences; binds and promises have names, amounts and codes.
        return structs.replace(decisions, evictions=_map_texts(decisions.evictions, self._text))

    def _see(self) -> None:
        # Done only when something is cut, because there may be many records.
        while self._unseen:
            _collect_selected_labels(self._unseen.pop().changes.set, self._read)

    def _cycle(self, cycle: RecordedCycle) -> RecordedCycle:
        self._see()
        return structs.replace(
            cycle,
            changes=self._changes(cycle.changes),
            decisions=self.decisions(cycle.decisions),
            pending=_map_texts(cycle.pending, self._text),
        )

    def _changes(self, changes: Changes) -> Changes:
        records = changes.set
        # Queues, PodGroups and topologies only have names and amounts.
        if not (records.nodes or records.tasks or records.claims):
            return changes
        cut = Snapshot(
            nodes=tuple(self._node(node) for node in records.nodes),
            queues=records.queues,
            podgroups=records.podgroups,
            tasks=tuple(self._task(task) for task in records.tasks),
            topologies=records.topologies,
            claims=_map_texts(records.claims, self._record_text),
        )
        return structs.replace(changes, set=cut)

    def _node(self, node: Node) -> Node:
        labels = tuple(pair for pair in node.labels if pair[0] in self._read or self._keeps_label(pair[0]))
        return _map_texts(structs.replace(node, labels=labels), self._record_text)

    def _task(self, task: Task) -> Task:
        shape = self._shapes.get(id(task.shape))
        if shape is None:
            shape = self._shapes[id(task.shape)] = _map_texts(task.shape, self._record_text)
        return task if shape is task.shape else structs.replace(task, shape=shape)

    def _record_text(self, text: str) -> str:
        new = self._text(text)
        # Counted for records only: they are the input of decisions, sentences are not.
        if new is not text:
            self.cut.add(text)
        return new

    def _text(self, text: str) -> str:
        new = self._known.get(text)
        if new is None:
            new = self._scrubbed(text)
            if new != text:
                plain, number = new, 1
                # Two texts that become equal could make selectors or devices equal, and so change decisions.
                while new in self._given:
                    number += 1
                    new = f"{plain} ({number})"
                self._given.add(new)
            else:
                new = text
            self._known[text] = new
        return text if new == text else new


def _collect_selected_labels(records: Snapshot, keys: set[str]) -> None:
    """Collect the label keys that shapes and topologies read from nodes."""
    for topology in records.topologies:
        keys.update(topology.levels)
    # Equal tasks share a shape.
    for shape in {id(task.shape): task.shape for task in records.tasks}.values():
        needs = [*shape.selector, *(need for term in shape.terms for need in term.requirements)]
        needs += (need for term in shape.preferred for need in term.requirements)
        keys.update(need.key for need in needs)
        keys.update(term.topology_key for term in (*shape.affinity, *shape.anti_affinity))


def _map_texts(value: Mapped, text: Callable[[str], str]) -> Mapped:
    """Replace every string in a value, except keys. Returns the value itself if nothing changed."""
    new: Any = value
    if isinstance(value, str):
        new = text(value) if type(value) is str else value  # members of an enumeration are no free text
    elif isinstance(value, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            before = getattr(value, name)
            after = _map_texts(before, text)
            if after is not before:
                changed[name] = after
        new = structs.replace(value, **changed) if changed else value
    elif isinstance(value, tuple):
        items = [_map_texts(item, text) for item in value]
        if any(a is not b for a, b in zip(items, value)):
            # Named tuples are built with _make, plain ones from a list.
            make: Any = getattr(type(value), "_make", tuple)
            new = make(items)
    elif isinstance(value, list):
        items = [_map_texts(item, text) for item in value]
        new = items if any(a is not b for a, b in zip(items, value)) else value
    elif isinstance(value, Mapping):
        mapped = {key: _map_texts(item, text) for key, item in value.items()}
        new = mapped if any(mapped[key] is not item for key, item in value.items()) else value
    return new


_MANY = 100
"""Up to this many new texts are added to the scrubber one by one."""


class _CutObject(NamedTuple):
    """A cut object. ``source`` is referenced, so that its identity stays unique."""

    source: Any
    kept: Any
    left_out: frozenset[str]
    fields: frozenset[str]
    words: frozenset[str]


class ChangedObjects(NamedTuple):
    """The objects, as kept, that are new or gone since the reading before, by kind."""

    new: dict[str, list[Any]]
    gone: dict[str, list[Any]]


class CutCache:
    """The cut objects of one lab. A kept word is never cut later: a name stays in texts after its object is gone. ``generation`` counts how often everything
    had to be cut again."""

    def __init__(self) -> None:
        self.generation = 0
        self._selected: set[str] = set()
        self._learned: dict[int, tuple[Any, frozenset[str]]] = {}
        self._objects: dict[int, _CutObject] = {}
        self._listings: dict[str, dict[str, dict[int, _CutObject]]] = {}
        self._given: dict[str, Mapping[str, Sequence[Any]]] = {}
        self._held: Counter[str] = Counter()
        self._manifests: dict[int, tuple[msgspec.Raw, Any]] = {}
        self._named = 0
        self._words: set[str] = set()
        self._new_words: set[str] = set()
        self._left_out: set[str] = set()
        self._scrubber: Scrubber | None = None

    def learn(self, redaction: Redaction, objects: Sequence[Any]) -> None:
        """As ``Redaction.learn``, for a list that does not change."""
        known = self._learned.get(id(objects))
        if known is None:
            single = Redaction()
            single.learn(objects)
            known = self._learned[id(objects)] = (objects, frozenset(single.selected))
        redaction.selected |= known[1]

    def cut(self, redaction: Redaction, obj: Any, words: Callable[[Any], set[str]]) -> Any:
        """As ``Redaction.object``, for an object that stays in memory. ``words``: finds the kept words of an object."""
        self._select(redaction)
        known = self._objects.get(id(obj))
        if known is None:
            known = self._objects[id(obj)] = self._cut(obj, words, redaction.applied)
        redaction.left_out |= known.left_out
        redaction.fields |= known.fields
        return known.kept

    def cut_listing(
        self, redaction: Redaction, name: str, listing: Mapping[str, Sequence[Any]], words: Callable[[Any], set[str]]
    ) -> ChangedObjects:
        """Cut the new objects of a listing, and collect what was left out of all of them."""
        self._select(redaction)
        listings, fresh = self._listings.setdefault(name, {}), ChangedObjects({}, {})
        same, self._given[name] = self._given.get(name) is listing, listing
        for kind, objects in () if same else listing.items():
            before = listings.get(kind, {})
            # Most objects are the same in the first and the last listing, so each is cut once.
            known = {key: cut for one in self._listings.values() for key, cut in one.get(kind, {}).items()}
            present = listings[kind] = {id(obj): known.get(id(obj)) or self._cut(obj, words) for obj in objects}
            fresh.new[kind] = [cut.kept for key, cut in present.items() if key not in before]
            deleted = [cut for key, cut in before.items() if key not in present]
            fresh.gone[kind] = [cut.kept for cut in deleted]
            self._held.update(text for key, cut in present.items() if key not in before for text in cut.left_out)
            self._held.subtract(text for cut in deleted for text in cut.left_out)
        redaction.left_out |= {text for text, count in self._held.items() if count > 0}
        return fresh

    def kept(self, name: str, kind: str, obj: Any) -> Any:
        """The cut form of an object of a listing."""
        return self._listings[name][kind][id(obj)].kept

    def _select(self, redaction: Redaction) -> None:
        if redaction.selected != self._selected:
            # More labels are kept now, so all objects must be cut again.
            self._selected = set(redaction.selected)
            self._objects.clear()
            self._listings.clear()
            self._given.clear()
            self._held.clear()
            self.generation += 1

    def _cut(self, obj: Any, words: Callable[[Any], set[str]], applied: bool = False) -> _CutObject:
        single = Redaction()
        single.applied = applied
        single.selected = self._selected
        kept = single.object(obj)
        kept_words = frozenset(words(kept))
        self.keep_words(kept_words)
        return _CutObject(obj, kept, frozenset(single.left_out), frozenset(single.fields), kept_words)

    def decoded(self, manifest: msgspec.Raw) -> Any:
        """The objects of a manifest, decoded once."""
        known = self._manifests.get(id(manifest))
        if known is None:
            known = self._manifests[id(manifest)] = (manifest, msgspec.json.decode(manifest))
        return known[1]

    def read_names(self, cycles: Sequence[RecordedCycle]) -> None:
        self.keep_words(record_names(cycles[self._named :]))
        self._named = len(cycles)

    def keep_words(self, words: Collection[str]) -> None:
        """Keep these words in all texts."""
        self._new_words |= set(words) - self._words

    def scrubber(self, left_out: set[str]) -> Scrubber:
        """The scrubber for all texts left out so far, also of objects that are gone."""
        spared, self._words = self._new_words - self._words, self._words | self._new_words
        self._new_words = set()
        more = left_out - self._left_out
        self._left_out |= more
        if self._scrubber is None or len(more) > _MANY:
            self._scrubber = Scrubber(self._left_out, self._words)
            self.generation += 1
            return self._scrubber
        changed = bool(spared) and self._scrubber.spare(spared)
        if more:
            changed |= self._scrubber.leave_out(more, self._words)
        self.generation += changed
        return self._scrubber


ObjectsByFile = Mapping[str, Sequence[Object]]
"""File -> the objects of a kind."""

BEFORE, AFTER = "before", "after"

HEADER = """\
# {name}: the objects that were applied, written anew by kailab without what no scheduling decision reads.
# Left out: {fields}. See evidence/README.md, "What is left out".
"""


class Sanitizer:
    """``manifests``: objects by file. ``patches``: (kind, patch). ``refused``: refused texts and objects. ``names``: names that are kept although no object here has
    them. ``labels``: keys of labels that are kept although no selector names them. ``cuts``: the cache of a running lab. ``fresh``: what changed in the last reading."""

    def __init__(
        self,
        manifests: Sequence[tuple[str, Sequence[Object]]],
        before: ObjectsByFile,
        after: ObjectsByFile,
        patches: Sequence[tuple[str, Object]] = (),
        refused: Sequence[str | Object] = (),
        names: Collection[str] = (),
        labels: Collection[str] = (),
        cuts: CutCache | None = None,
    ) -> None:
        self._redaction = redaction = Redaction()
        redaction.selected.update(labels)
        self._cuts = cuts = CutCache() if cuts is None else cuts
        self._given = {BEFORE: before, AFTER: after}
        self._scrubbed_objects: dict[int, Object] = {}
        cuts.keep_words(names)
        # Selectors of all objects are read before anything is cut, because a selector may come after the labels that it names.
        for objects in (*(objects for _, objects in manifests), *before.values()):
            cuts.learn(redaction, objects)
        redaction.learn(patch for _, patch in patches)
        # Everything is cut here, because the scrubber must know all texts that were left out.
        redaction.applied = True
        self._applied = [(name, *self._cut(objects)) for name, objects in manifests]
        redaction.applied = False
        # Fields cut from here on must not appear in the header of the last manifest.
        redaction.fields = set()
        cuts.cut_listing(redaction, BEFORE, before, _defining_texts)
        self.fresh = cuts.cut_listing(redaction, AFTER, after, _defining_texts)
        self._patches = [self._patch(kind, patch) for kind, patch in patches]
        for item in refused:
            self._refused(item)

    @cached_property
    def manifests(self) -> dict[str, bytes]:
        """File -> YAML text, in the order of application."""
        texts = {}
        for name, objects, fields in self._applied:
            left_out = ", ".join(["comments", *sorted(fields)])
            texts[name] = (
                HEADER.format(name=name, fields=left_out) + write_documents(self.text.value(objects))
            ).encode()
        return texts

    @cached_property
    def before(self) -> ObjectsByFile:
        """The objects of the first reading."""
        return self._look(BEFORE)

    @cached_property
    def after(self) -> ObjectsByFile:
        """The objects of the last reading."""
        return self._look(AFTER)

    def _look(self, name: str) -> ObjectsByFile:
        return {
            file: [self._scrubbed(self._cuts.kept(name, file, obj)) for obj in objects]
            for file, objects in self._given[name].items()
        }

    def _scrubbed(self, kept: Object) -> Object:
        """An object without what is left out of texts; one that is in both readings is scrubbed once."""
        known = self._scrubbed_objects.get(id(kept))
        if known is None:
            known = self._scrubbed_objects[id(kept)] = self.text.value(kept)
        return known

    @cached_property
    def text(self) -> Scrubber:
        """The scrubber for free text."""
        return self._cuts.scrubber(self._redaction.left_out)

    @property
    def cut(self) -> int:
        """The number of different texts that were left out."""
        return len(self._redaction.left_out)

    def keeps_label(self, key: str) -> bool:
        """True if labels with this key are kept."""
        return self._redaction.keeps_label(key)

    def step(self, step: RecordedStep) -> RecordedStep:
        """A step with its patch cut."""
        if step.patch is None:
            return step
        return structs.replace(step, patch=self._patch(step.kind, step.patch))

    def fleet(self, definition: Mapping[str, Any]) -> bytes:
        """A fleet file without annotations that are left out of nodes."""
        pools = [
            {key: self._redaction.annotations(value) if key == "annotations" else value for key, value in pool.items()}
            for pool in definition.get("pools", ())
        ]
        return write_documents([{**definition, "pools": pools}]).encode()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _cut(self, objects: Iterable[Object]) -> tuple[list[Object], set[str]]:
        fields: set[str] = set()
        self._redaction.fields = fields
        return [self._cuts.cut(self._redaction, obj, _all_texts) for obj in objects], fields

    def _patch(self, kind: str, patch: Object) -> Object:
        # A patch is cut by the rules of its kind, which it may not contain. Like a manifest, it comes from a user.
        self._redaction.applied = True
        kept = self._redaction.object({**patch, "kind": kind.partition(".")[0]})
        self._redaction.applied = False
        return kept if "kind" in patch else {key: value for key, value in kept.items() if key != "kind"}

    def _refused(self, refused: str | Object) -> None:
        """Collect what is left out of a refused text or object."""
        if isinstance(refused, str):
            try:
                documents = [value for value, _ in yamltext.read_documents(refused)]
            except InputError:
                # A text that is not YAML has no fields, so all its lines count as cut.
                self._redaction.left_out.update(refused.splitlines())
                return
        else:
            documents = [refused]
        for value in documents:
            if isinstance(value, dict):
                self._redaction.object(value)
            else:
                self._redaction.left_out.add(str(value))


def _all_texts(obj: Object) -> set[str]:
    texts: set[str] = set()
    _texts(obj, texts)
    return texts


def _defining_texts(obj: Object) -> set[str]:
    """The texts of a cut object that say what it is and what decisions compare: everything but its status, and the amounts, states and times in its status.

    Other objects may quote them in a text that is left out, as the arguments of a controller quote a label or a taint that it looks for, and an operator's
    status quotes the phase of a pod. If the quoted text were cut here, selectors, amounts and phases would change, and with them the decisions."""
    texts: set[str] = set()
    _texts({key: value for key, value in obj.items() if key != "status"}, texts)
    _states_and_amounts(obj.get("status"), texts)
    return texts


_AMOUNTS = frozenset({"allocatable", "capacity", "hard", "requested", "allocated", "allocatedNonPreemptible"})


def _states_and_amounts(status: Any, texts: set[str], field: str = "") -> None:
    if isinstance(status, dict):
        for key, inside in status.items():
            if key in _AMOUNTS:
                _texts(inside, texts)
            else:
                _states_and_amounts(inside, texts, key)
    elif isinstance(status, list):
        for inside in status:
            _states_and_amounts(inside, texts, field)
    elif isinstance(status, str) and is_common_word(field, status):
        texts.add(status)


def _texts(value: Any, texts: set[str]) -> None:
    if isinstance(value, str):
        texts.add(value)
    elif isinstance(value, dict):
        for key, inside in value.items():
            # The names of resources and labels, which arguments and messages of a scheduler quote.
            if isinstance(key, str) and "/" in key:
                texts.add(key)
            if key != "message":
                _texts(inside, texts)
    elif isinstance(value, list):
        for inside in value:
            _texts(inside, texts)
