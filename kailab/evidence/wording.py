"""Amounts, counts and names as texts."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from kailab.model.times import format_duration
from kailab.model.wording import count as count
from kailab.model.wording import some as some


def gpus(milli: float) -> str:
    """Milli-GPU as a text.

    >>> gpus(1000), gpus(2500), gpus(-1)
    ('1 GPU', '2.5 GPUs', 'unlimited')
    """
    if milli == -1:
        return "unlimited"
    amount = gpu_amount(milli)
    return f"{amount} GPU" if amount == "1" else f"{amount} GPUs"


def is_or_are(amount: str) -> str:
    """The verb for an amount.

    >>> is_or_are("1 GPU"), is_or_are("2.5 GPUs"), is_or_are("20Gi")
    ('is', 'are', 'are')
    """
    return "is" if amount == "1 GPU" else "are"


def gpu_amount(milli: float) -> str:
    """Milli-GPU as a number without the word.

    >>> gpu_amount(1000), gpu_amount(2500)
    ('1', '2.5')
    """
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def amount_text(resource: str, value: float) -> str:
    """An amount of a queue's resource (``gpu``, ``cpu``, ``memory``, or the engine's names) as a text. ``value`` is in engine units; -1 and
    infinity are unlimited.

    >>> [amount_text(*each) for each in (("gpu", 2000), ("CPU", 1500), ("memory", 20 * 2**30), ("Memory", 5 * 10**9))]
    ['2 GPUs', '1.5 CPU', '20Gi', '5 GB']
    """
    if value in (-1, inf):
        return "unlimited"
    if resource.lower() == "gpu":
        return gpus(value)
    if resource.lower() == "cpu":
        return f"{value / 1000:.3f}".rstrip("0").rstrip(".") + " CPU"
    # In the unit that was written: usually Gi for pods, MB for queues.
    for unit, size in (("Gi", 2**30), (" GB", 10**9), ("Mi", 2**20)):
        if value >= size and value % size == 0:
            return f"{int(value) // size}{unit}"
    return f"{value / 2**30:.2f}".rstrip("0").rstrip(".") + "Gi"


def elapsed(seconds: float) -> str:
    """A duration, without the zeros that Go prints.

    >>> elapsed(3), elapsed(90), elapsed(3600)
    ('3s', '1m30s', '1h')
    """
    text = format_duration(round(seconds, 3))
    return text.replace("m0s", "m").replace("h0m", "h") if seconds >= 60 else text


def listed(names: Sequence[str]) -> str:
    """All names, of which there is at least one.

    >>> listed(["A100"]), listed(["A100", "H100", "L40S"])
    ('A100', 'A100, H100 and L40S')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def capitalized(text: str) -> str:
    """With a capital first letter; the other letters stay.

    >>> capitalized("its 2 pods want 2 GPUs")
    'Its 2 pods want 2 GPUs'
    """
    return text[:1].upper() + text[1:]
