"""The story of a lab in order of time: what was done, what the scheduler decided, what was expected and seen.

One line per kind of thing that happened in a cycle ("bind 8 pods of trainer (team-a)"), not one per pod: the
decision log has each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kailab.evidence.entries import Bound, Decision, Evicted, Expected, Refused, Step, Told, Waits

Moment = Step | Expected | Sequence[Decision]
"""What the recorder keeps in order; decisions are those of one cycle."""


def tell(moments: Iterable[Moment]) -> list[Told]:
    """The lines of a timeline."""
    entries: list[Told] = []
    for moment in moments:
        if isinstance(moment, Step):
            entries.append(Told(t=moment.t, kind="step", text=f"{moment.operation} {moment.text}".rstrip()))
        elif isinstance(moment, Expected):
            entries.append(Told(t=moment.t, kind="expectation", text=_expectation(moment)))
        elif moment:
            entries += (Told(t=moment[0].t, kind="decision", text=text) for text in _cycle(moment))
    return entries


def render(entries: Iterable[Told]) -> str:
    """Entries as text, the time in seconds since the lab opened in front of each.

    >>> render([Told(t=3.0, kind="step", text="apply queues.yaml")])
    '       3 s  apply queues.yaml\\n'
    """
    marks = {"step": "", "decision": "    ", "expectation": "  "}
    return "".join(f"{entry.t:>8g} s  {marks[entry.kind]}{entry.text}\n" for entry in entries)


def _expectation(entry: Expected) -> str:
    verdict = "held" if entry.held else "FAILED"
    seen = "" if entry.held else f"; seen: {entry.seen}"
    return f"expected {entry.expected}: {verdict}{seen}"


def _cycle(entries: Sequence[Decision]) -> Iterable[str]:
    counts: dict[tuple[str, ...], int] = {}
    for entry in entries:
        # Dicts keep the order of insertion, so lines stand where the first of their kind was decided.
        key = _kind_of(entry)
        counts[key] = counts.get(key, 0) + 1
    for (decision, action, what, queue, extra), count in counts.items():
        if decision == "pending":
            yield f"pending: {count} pod group{_s(count)} of {queue or 'no queue'}: {extra}"
            continue
        text = f"{decision} {count} pod{_s(count)}"
        if what:
            text += f" of {what}"
        if decision == "failed to":
            text = f"{decision} {action} {count} pod{_s(count)}" + (f" of {what}" if what else "") + f": {extra}"
        else:
            text += f" ({queue})" if queue else ""
        if decision == "evict":
            text += f" by {action}" + (f" for {extra}" if extra else "")
        elif action != "allocate" and decision != "failed to":
            text += f" by {action}"
        yield text


def _kind_of(entry: Decision) -> tuple[str, str, str, str, str]:
    if isinstance(entry, Waits):
        return ("pending", "", "", entry.queue, entry.reason)
    if isinstance(entry, Refused):
        return ("failed to", entry.verb, entry.app, "", entry.reason)
    if isinstance(entry, Evicted):
        return ("evict", entry.action, entry.app, entry.queue, entry.beneficiary_queue)
    return ("bind" if isinstance(entry, Bound) else "pipeline", entry.action, entry.app, entry.queue, "")


def _s(count: int) -> str:
    return "" if count == 1 else "s"
