"""What of a lab's objects and texts goes into its evidence: the one gate, for objects, manifests and free text alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.errors import InputError
from kailab.evidence.cuts import Cuts, Fresh
from kailab.evidence.entries import Step
from kailab.evidence.redaction import Redaction
from kailab.evidence.scrubbing import Scrubber
from kailab.model import yamltext
from kailab.model.manifests import dump

Looks = Mapping[str, Sequence[Object]]
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
        before: Looks,
        after: Looks,
        patches: Sequence[tuple[str, Object]] = (),
        refused: Sequence[str | Object] = (),
        names: Collection[str] = (),
        cuts: Cuts | None = None,
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
        self.fresh = Fresh({}, {})
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
    def _looks(self) -> tuple[Looks, Looks]:
        # By identity once more: an object that is the same at both looks was cut into one copy.
        scrubbed = {key: self.text.value(obj) for key, obj in _by_identity(self._before, self._after).items()}
        return _replaced(self._before, scrubbed), _replaced(self._after, scrubbed)

    @property
    def before(self) -> Looks:
        """The first look, cut."""
        return self._looks[0]

    @property
    def after(self) -> Looks:
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

    def step(self, step: Step) -> Step:
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


def _by_identity(*looks: Looks) -> dict[int, Object]:
    return {id(obj): obj for look in looks for objects in look.values() for obj in objects}


def _replaced(looks: Looks, by: Mapping[int, Object]) -> dict[str, list[Object]]:
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
