"""The story of a lab in order of time: what was done, what the scheduler decided, what was expected and seen.

One line per kind of thing that happened in a cycle ("bind 8 pods of trainer (team-a)"), not one per pod: the
decision log has each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def tell(moments: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Moments, as the recorder keeps them in order, to entries ``{"t", "kind", "text"}``."""
    entries: list[dict[str, Any]] = []
    for moment in moments:
        kind, t = moment["kind"], moment["t"]
        if kind == "step":
            entries.append({"t": t, "kind": "step", "text": _step(moment)})
        elif kind == "expectation":
            entries.append({"t": t, "kind": "expectation", "text": _expectation(moment)})
        elif kind == "cycle":
            entries += ({"t": t, "kind": "decision", "text": text} for text in _cycle(moment["entries"]))
    return entries


def render(entries: Iterable[Mapping[str, Any]]) -> str:
    """Entries as text, the time in seconds since the lab opened in front of each.

    >>> render([{"t": 3.0, "kind": "step", "text": "apply queues.yaml"}])
    '       3 s  apply queues.yaml\\n'
    """
    marks = {"step": "", "decision": "    ", "expectation": "  "}
    return "".join(f"{entry['t']:>8g} s  {marks[entry['kind']]}{entry['text']}\n" for entry in entries)


def _step(moment: Mapping[str, Any]) -> str:
    detail = moment.get("text", "")
    return f"{moment['operation']} {detail}".rstrip()


def _expectation(moment: Mapping[str, Any]) -> str:
    verdict = "held" if moment["held"] else "FAILED"
    seen = "" if moment["held"] else f"; seen: {moment['seen']}"
    return f"expected {moment['expected']}: {verdict}{seen}"


def _cycle(entries: list[dict[str, Any]]) -> Iterable[str]:
    counts: dict[tuple[str, ...], int] = {}
    for entry in entries:
        key = _kind_of(entry)
        counts[key] = counts.get(key, 0) + 1
    for (decision, action, what, queue, extra), count in counts.items():
        if decision == "pending":
            yield f"pending: {count} pod group{_s(count)} of {queue or 'no queue'}: {extra}"
            continue
        text = f"{decision} {count} pod{_s(count)}"
        if what:
            text += f" of {what}"
        text += f" ({queue})" if queue else ""
        if decision == "evict":
            text += f" by {action}" + (f" for {extra}" if extra else "")
        elif action != "allocate":
            text += f" by {action}"
        yield text


def _kind_of(entry: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    decision = entry["decision"]
    if decision == "pending":
        return (decision, "", "", entry["queue"], entry["reason"])
    extra = entry.get("beneficiary_queue", "") if decision == "evict" else ""
    return (decision, entry["action"], entry.get("app", ""), entry["queue"], extra)


def _s(count: int) -> str:
    return "" if count == 1 else "s"
