"""A refusal: what one rule compared when it kept work from running, with both values as data.

Each kind of refusal is a subclass of ``Refusal``, which first checks that its numbers show a refusal, and then makes its sentence of them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar

from kailab.cluster.unreadable_objects import STRICT
from kailab.engine.relaxing.rules import Relaxation
from kailab.lab.answer import Cause, CauseCode, ObjectRef

INTERNAL: Mapping[str, bool] = MappingProxyType({"internal": True})
"""Metadata of a field that an answer does not contain."""

log = logging.getLogger(__name__)


class ContradictionError(Exception):
    """The numbers of a refusal contradict it. A defect of kailab."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One rule that keeps work from running. A field of a subclass is a number or a name that the rule compared, in engine units.
    ``objects``: what the refusal depends on and what would have to change. ``FACTS``: the fields that are facts of the cause."""

    FACTS: ClassVar[tuple[str, ...]] = ()

    code: CauseCode
    objects: tuple[ObjectRef, ...] = field(default=(), metadata=INTERNAL)

    @property
    def holds(self) -> bool:
        """Whether the numbers show that the rule refuses the work."""
        return True

    @property
    def sentence(self) -> str:
        """The refusal in words, made from the fields alone."""
        raise NotImplementedError

    @property
    def facts(self) -> Mapping[str, Any]:
        """The numbers and names that decide, as plain values."""
        return {_camel(name): _as_plain(getattr(self, name)) for name in self.FACTS}

    @property
    def numbers(self) -> Mapping[str, Any]:
        """All that was compared, as plain values."""
        return {
            _camel(own.name): _as_plain(getattr(self, own.name))
            for own in fields(self)
            if own.name != "code" and "internal" not in own.metadata
        }

    def lifted(self) -> tuple[Relaxation, ...]:
        """The relaxations that switch this rule off in a cycle; empty if it is not a rule of the engine."""
        return ()

    def cause(self) -> Cause | None:
        """The refusal as a cause of an answer. None if its numbers contradict it: the answer then has a less specific cause, rather than a
        false sentence. Raises ContradictionError instead if ``KAILAB_STRICT`` is set, as in kailab's own tests."""
        if self.holds:
            return Cause(self.code, self.sentence, self.objects, self.facts, self.numbers)
        if os.environ.get(STRICT):
            raise ContradictionError(f"{self!r}")
        log.error("The numbers of a cause contradict it, so it is not reported: %r", self)
        return None


@dataclass(frozen=True, kw_only=True)
class PlainRefusal(Refusal):
    """A refusal that compares no amounts: an object that is missing, or one that is not what it has to be. ``text``: its sentence.
    ``names``: its facts."""

    text: str = field(metadata=INTERNAL)
    names: Mapping[str, Any] = field(default_factory=dict, metadata=INTERNAL)

    @classmethod
    def of(
        cls, code: CauseCode, text: str, objects: tuple[ObjectRef, ...] = (), names: Mapping[str, Any] | None = None
    ) -> PlainRefusal:
        """Make a refusal from positional arguments."""
        return cls(code=code, text=text, objects=objects, names=names or {})

    @property
    def sentence(self) -> str:
        return self.text

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.names


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def _as_plain(value: Any) -> Any:
    """A value of a field as JSON has it: named tuples are objects, other tuples lists."""
    if hasattr(value, "_asdict"):
        return {_camel(name): _as_plain(part) for name, part in value._asdict().items()}
    return [_as_plain(part) for part in value] if isinstance(value, tuple | list) else value
