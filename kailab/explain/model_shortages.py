"""Work that waits for GPUs of one model while GPUs of others are free: the lines and data of explanations."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from kailab.evidence.wording import gpus
from kailab.explain.subject import PodsAtMoment
from kailab.lab.model_shortages import ModelShortage
from kailab.lab.picture import Picture, group_of


def shortages_of_subject(state: PodsAtMoment) -> list[ModelShortage]:
    """The GPU models that its waiting pods lack."""
    return state.picture.shortages_of({group_of(row) for row in state.waiting if row.podgroup})


def shortages_of_queue(picture: Picture, queues: Collection[str]) -> list[ModelShortage]:
    """The GPU models that the waiting work of these queues lacks."""
    return picture.shortages_of({name for name, entry in picture.pending.items() if entry.queue in queues})


def shortage_lines(shortages: list[ModelShortage], of_queue: bool = False) -> Iterator[str]:
    """``of_queue``: of all that waits in a queue, of which several may be short of different models."""
    for shortage in shortages:
        yield shortage.sentence(f"its waiting work for {gpus(shortage.waiting)}" if of_queue else "it")


def shortage_data(shortages: list[ModelShortage]) -> dict[str, Any]:
    """``model_shortages``; nothing without one."""
    return {"model_shortages": [shortage.data() for shortage in shortages]} if shortages else {}
