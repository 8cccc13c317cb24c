"""Waiting work that takes only GPU models that are full, while GPUs of others are free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from kailab.engine.decisions import LabelDemand
from kailab.evidence.model_use import ModelUse, total_use
from kailab.evidence.wording import count, gpu_amount, gpus, listed, some

Models = tuple[str, ...]


class ModelShortage(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting work that takes only some models, of which too few are free, while GPUs of other models are free.

    ``models``: those it takes. ``own``: their use. ``others``: the models with free GPUs that it does not take. ``podgroups``:
    ``namespace/name``. ``queues``: of these. ``waiting``: milli-GPU that they want in all; ``next``: what the first of them wants at once.
    """

    models: Models
    own: ModelUse
    others: tuple[ModelUse, ...]
    podgroups: tuple[str, ...]
    queues: tuple[str, ...]
    waiting: int
    next: int

    def sentence(self, who: str = "it") -> str:
        """``1600 of 1600 H100 GPUs are in use; 223 free GPUs are A100 (192) and L40S (31), which it does not take.`` ``who``: the
        work, instead of "it"."""
        own = self.own
        text = f"{gpu_amount(own.used)} of {gpu_amount(own.gpus)} {listed(self.models)} {_noun(own.gpus)} in use"
        if own.free:
            text += f" and {gpu_amount(own.free)} {_are(own.free)} free, too few for the {gpus(self.next)} that {who} wants at once"
        if own.closed:
            text += f" ({gpu_amount(own.closed)} {_are(own.closed)} on nodes that take no new pods)"
        free = sum(use.free for use in self.others)
        others = listed([f"{use.model} ({gpu_amount(use.free)})" for use in self.others])
        return f"{text}; {gpu_amount(free)} free {_noun(free)} {others}, which {who} does not take."

    def data(self) -> dict[str, Any]:
        """For programs, in GPUs."""
        return {
            "models": list(self.models),
            **{key: value for key, value in self.own.data().items() if key not in ("model", "nodes")},
            "others": {use.model: use.free / 1000 for use in self.others},
            "waiting": self.waiting / 1000,
            "wanted_at_once": self.next / 1000,
            "podgroups": list(self.podgroups),
            "queues": list(self.queues),
        }


def model_shortages(
    uses: Mapping[str, ModelUse], demands: Iterable[LabelDemand], name_of: Callable[[str], str]
) -> list[ModelShortage]:
    """The shortages of waiting work, those with most waiting GPUs first. ``uses``: of all models. ``demands``: of PodGroups. ``name_of``:
    the name of a PodGroup by its UID."""
    alike: dict[Models, list[LabelDemand]] = {}
    for demand in demands:
        own = [uses[model] for model in demand.values if model in uses]
        if demand.podgroup and own and sum(use.free for use in own) < demand.next:
            alike.setdefault(demand.values, []).append(demand)
    result = []
    for models, together in alike.items():
        others = tuple(use for model, use in uses.items() if model and model not in models and use.free >= 1000)
        if not others:
            continue
        own_use = total_use([uses[model] for model in models if model in uses])
        result.append(
            ModelShortage(
                models=models,
                own=own_use,
                others=tuple(sorted(others, key=lambda use: (-use.free, use.model))),
                podgroups=tuple(sorted(name_of(demand.podgroup) for demand in together)),
                queues=tuple(sorted({demand.queue for demand in together})),
                waiting=sum(demand.gpus for demand in together),
                next=min(demand.next for demand in together),
            )
        )
    return sorted(result, key=lambda shortage: (-shortage.waiting, shortage.models))


def describe_shortage(shortage: ModelShortage) -> str:
    """With the work that is short: ``9 pod groups of team-b and team-c (432 GPUs) take only H100: 1600 of 1600 ...``."""
    groups = shortage.podgroups
    who, takes = (groups[0], "takes") if len(groups) == 1 else (count(len(groups), "pod group"), "take")
    what = f"{who} of {some(shortage.queues)} ({gpus(shortage.waiting)}) {takes} only {listed(shortage.models)}"
    return f"{what}: {shortage.sentence('this work')}"


def _noun(milli: int) -> str:
    return "GPU is" if milli == 1000 else "GPUs are"


def _are(milli: int) -> str:
    return "is" if milli == 1000 else "are"
