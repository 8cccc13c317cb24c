"""Findings by GPU model: work that waits for a full model while others are free, and quotas that count GPUs that their work can't use."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.advice.findings import AuditFinding, FindingCode, Severity
from kailab.evidence.model_use import total_use
from kailab.evidence.wording import gpus, listed, some
from kailab.lab.model_shortages import describe_shortage
from kailab.lab.picture import Picture


def full_models(picture: Picture) -> Iterable[AuditFinding]:
    """Models that are full, while work waits that takes no other and GPUs of others are free."""
    for shortage in picture.model_shortages:
        models = " or ".join(shortage.models)
        others = some([use.model for use in shortage.others])
        yield AuditFinding(
            FindingCode.MODEL_FULL,
            Severity.WARNING,
            describe_shortage(shortage),
            tuple(f"podgroup/{name}" for name in shortage.podgroups)
            + tuple(f"queue/{name}" for name in shortage.queues),
            {
                "models": list(shortage.models),
                **{name: getattr(shortage.own, name) for name in ("gpus", "used", "free", "closed")},
                "others": {use.model: use.free for use in shortage.others},
                "waiting": shortage.waiting,
                "podgroups": list(shortage.podgroups),
                "queues": list(shortage.queues),
            },
            f"If it can run on {others}, allow that in its node selector or affinity; else free GPUs of {models}, or add some.",
        )


def quotas_beyond_models(picture: Picture) -> Iterable[AuditFinding]:
    """Quotas larger than the number of GPUs of all models that the running and waiting work of the queue can use. Queues without work are
    left out, because the models that they need are unknown."""
    uses = picture.models
    found: set[str] = set()
    # A parent is judged after its children, and only if none of them is at fault already.
    for name in sorted(picture.shares.queues, key=lambda queue: (-len(picture.lines[queue]), queue)):
        queue, below = picture.shares[name], picture.below(name)
        demands = [demand for demand in picture.model_demands if demand.queue in below]
        if queue.quota <= 0 or not demands or not all(demand.values for demand in demands) or found & below:
            continue
        models = sorted({model for demand in demands for model in demand.values})
        # Nodes without a model label may suit the work, so they count as usable.
        usable = total_use([uses[model] for model in (*models, "") if model in uses]).gpus
        if queue.quota <= usable:
            continue
        found.add(name)
        others = [use for model, use in uses.items() if model and model not in models]
        yield AuditFinding(
            FindingCode.QUOTA_BEYOND_MODELS,
            Severity.WARNING,
            f"{name} has a quota of {gpus(queue.quota)}, and all its work, running and waiting, takes only {listed(models)}, of which "
            f"there are {gpus(usable)}: {gpus(queue.quota - usable)} of the quota count GPUs of models that nobody in it can use "
            f"({some([f'{use.model} {gpus(use.gpus)}' for use in others])}).",
            (f"queue/{name}",),
            {"quota": queue.quota, "usable": usable, "beyond": queue.quota - usable, "models": models},
            f"Lower the gpu quota of {name} to {usable // 1000}, or let its work take other models.",
        )
