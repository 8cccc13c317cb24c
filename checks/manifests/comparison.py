"""What differs between the embedded lab and a control plane, in sentences, and which of it ``apply`` has told."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from checks.manifests.accepted import reason_for
from checks.manifests.observation import Answer, Observation, known_kind, without_names
from kailab.model.kinds import KINDS

_PODS = "pods here: "
_TIE = "KAI orders PodGroups of one second and priority by uid, which a server draws at random"
_FOLLOWING = (_PODS, "status here: ", "objects here: ")


@dataclass(frozen=True)
class Difference:
    """``about``: the object or subject; ``told``: what the embedded lab said about it at apply; ``reason``: why the difference is accepted."""

    about: str
    text: str
    told: str = ""
    reason: str = ""

    @property
    def explained(self) -> bool:
        return bool(self.told or self.reason)

    def __str__(self) -> str:
        why = f" (told: {self.told:.160})" if self.told else f" (accepted: {self.reason})" if self.reason else ""
        return f"{self.about}: {self.text}{why}"


def compare(embedded: Observation, real: Observation) -> list[Difference]:
    """The differences, those that nobody explains first."""
    found = [*_stopped(embedded, real), *_answers(embedded, real)]
    # What follows from another answer is no difference of its own.
    refused_by_one = {about for about, _ in found}
    # All work competes for the same nodes, so of a case of which a part is not there only what admission wrote can be compared.
    outcome = _admission(embedded, real) if unserved(real) else _outcome(embedded, real)
    found += [pair for pair in outcome if pair[0] not in refused_by_one]
    warnings = [warning for answer in embedded.answers for warning in answer.warnings]
    names = {answer.object: answer.names for answer in embedded.answers}
    exchanged = _exchanged(embedded, real)
    differences = [
        Difference(
            about,
            text,
            _told(about, [warning for warning in warnings if _may_explain(warning, text)])
            or _told_of_used(names.get(about, ()), warnings),
            reason_for(about, text) or (_TIE if about in exchanged else ""),
        )
        for about, text in found
    ]
    return sorted(_with_consequences(differences), key=lambda difference: difference.explained)


def _exchanged(embedded: Observation, real: Observation) -> set[str]:
    """Owners of pods that only took each other's places: on each side their PodGroups were created in one second, with the same priority,
    and together they have the same pods. KAI orders such PodGroups by their uids, which an API server draws at random."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for root in embedded.created.keys() & real.created.keys():
        if embedded.pods.get(root) != real.pods.get(root):
            priority = str((embedded.specs.get(root) or real.specs.get(root) or {}).get("priority"))
            alike.setdefault((embedded.created[root], real.created[root], priority), []).append(root)
    result: set[str] = set()
    for roots in alike.values():
        mine, theirs = (
            sum((side.pods.get(root, Counter()) for root in roots), Counter[str]()) for side in (embedded, real)
        )
        if mine == theirs:
            result.update(roots)
    return result


def _with_consequences(differences: list[Difference]) -> list[Difference]:
    """Other pods, queues, quotas and numbers of objects follow from pods of which it is known why there are more on one side, and from an
    object of which it is known why one side refuses it."""
    causes = (_PODS, "the API server refuses it", "the embedded lab refuses it")
    cause = next((each for each in differences if each.explained and each.text.startswith(causes)), None)
    if cause is None:
        return differences
    reason = f"follows from {cause.about}"
    return [
        each if each.explained or not each.text.startswith(_FOLLOWING) else replace(each, reason=reason)
        for each in differences
    ]


def _may_explain(warning: str, text: str) -> bool:
    """True unless a server refuses an object for another field than the one of the warning."""
    if not text.startswith("the API server refuses it") or "is not known to kailab" in warning:
        return True
    field = _FIELD.search(warning)
    refusal = _NO_LETTERS.sub("", text).lower()
    return field is None or any(
        step.lower() in refusal for step in _STEP.findall(field[0]) if step not in ("spec", "metadata", "template")
    )


_FIELD = re.compile(r"(?<=: )(spec|metadata|rules|subjects)[.\[][^ :]*")
_STEP = re.compile(r"[A-Za-z]{3,}")
_NO_LETTERS = re.compile(r"[^A-Za-z]+")


def _told(about: str, warnings: list[str]) -> str:
    """A warning of ``apply`` about an object or its kind."""
    kind, _, rest = about.partition("/")
    name = rest.rpartition("/")[2]
    for warning in warnings:
        # An owner that is not there is named in a warning about its pods.
        if (f"{kind}/" in warning and name in warning) or f"there is no {kind} {name!r} with this uid" in warning:
            return warning
    return ""


def _told_of_used(names: Collection[str], warnings: list[str]) -> str:
    """A warning about an object without pods of its own that an object uses: a claim, a runtime."""
    for warning in warnings:
        kind, _, name = warning.partition(":")[0].partition("/")
        if name.rpartition("/")[2] in names and not any(k.kind == kind and k.controller for k in KINDS.values()):
            return warning
    return ""


def _stopped(embedded: Observation, real: Observation) -> Iterator[tuple[str, str]]:
    for where, seen in (("the embedded lab", embedded), ("the control plane", real)):
        if seen.stopped:
            yield where, f"stopped: {seen.stopped}"


def _answers(embedded: Observation, real: Observation) -> Iterator[tuple[str, str]]:
    for mine, theirs in zip(embedded.answers, real.answers, strict=False):
        if bool(mine.refused) == bool(theirs.refused):
            continue
        # A server without the operator's definitions knows nothing of its kinds.
        if theirs.refused and not_served(theirs):
            continue
        if mine.refused:
            yield mine.object, f"the embedded lab refuses it ({mine.refused:.300}), and the API server takes it"
        else:
            yield (
                mine.object,
                f"the API server refuses it ({without_names(theirs.refused):.300}), and the embedded lab takes it",
            )


def not_served(answer: Answer) -> bool:
    """Whether the server refused an object because it does not have its kind."""
    text = answer.refused.lower()
    return (
        "no matches for kind" in text
        or "has no kind" in text
        or "does not have" in text
        or "is not served" in text
        or "could not find the requested resource" in text
    )


def unserved(seen: Observation) -> list[str]:
    """Objects whose kinds the server does not have, so that they can't be compared."""
    return [answer.object for answer in seen.answers if not_served(answer)]


def silent(embedded: Observation, real: Observation) -> list[str]:
    """Objects of unknown kinds that the embedded lab takes without a word."""
    return [
        mine.object
        for mine, theirs in zip(embedded.answers, real.answers, strict=False)
        if not mine.refused and not mine.warnings and not_served(theirs) and not known_kind(mine.object)
    ]


def _outcome(embedded: Observation, real: Observation) -> Iterator[tuple[str, str]]:
    for root in sorted({*embedded.pods, *real.pods}):
        mine, theirs = embedded.pods.get(root, Counter()), real.pods.get(root, Counter())
        if mine != theirs:
            yield root, f"{_PODS}{_counts(mine)}; on the control plane: {_counts(theirs)}"
    yield from _admission(embedded, real)
    for subject, ours, there in (("quota", embedded.quotas, real.quotas), ("queue", embedded.queues, real.queues)):
        for name in sorted({*ours, *there}):
            if ours.get(name) != there.get(name):
                yield f"{subject} {name}", f"status here: {ours.get(name)}; on the control plane: {there.get(name)}"
    for what in sorted({*embedded.made, *real.made}):
        if embedded.made[what] != real.made[what]:
            yield what, f"objects here: {embedded.made[what]}; on the control plane: {real.made[what]}"


def _admission(embedded: Observation, real: Observation) -> Iterator[tuple[str, str]]:
    for root in sorted(embedded.specs.keys() & real.specs.keys()):
        if embedded.specs[root] != real.specs[root]:
            yield root, f"admission differs: {_parts(embedded.specs[root], real.specs[root])}"


def _counts(pods: Counter[str]) -> str:
    return ", ".join(f"{number} {phase}" for phase, number in sorted(pods.items())) or "none"


def _parts(mine: dict[str, Any], theirs: dict[str, Any]) -> str:
    return "; ".join(f"{field} {mine[field]} and {theirs[field]}" for field in mine if mine[field] != theirs[field])
