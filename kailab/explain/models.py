"""GPUs by model where work waits for a model that is full: that others are free does not help it, and is what people ask about."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kailab.engine.snapshot.amounts import number
from kailab.engine.working.layout import GPUS
from kailab.explain.causes.case import cases
from kailab.explain.causes.node_ground import Ground
from kailab.explain.causes.node_shortage import device_row
from kailab.explain.subject import Standing
from kailab.lab.wording import gpus, some
from kailab.model.labels import gpu_model


def model_lines(standing: Standing) -> Iterator[str]:
    """One line at most, of the first that waits: where less is free of the models that it may use than it wants, and others are free."""
    for case in cases(standing):
        ground = case.ground
        if ground is None or not ground.next:
            continue
        row, wanted = device_row(ground)
        if row == GPUS and wanted:
            yield from _line(ground, wanted)
        return


def _line(ground: Ground, wanted: int) -> Iterator[str]:
    table = ground.table
    models = [gpu_model(labels) for labels in table.labels]
    usable = ground.usable(ground.next) & (table.allocatable[GPUS] > 0)
    own = {models[int(i)] for i in np.flatnonzero(usable)} - {""}
    if not own:
        return
    free = sum(table.unheld_gpus(int(i)) for i in np.flatnonzero(usable))
    others: dict[str, int] = {}
    for i in np.flatnonzero(table.available & ~usable):
        if models[i] and models[i] not in own and (unheld := table.unheld_gpus(int(i))) > 0:
            others[models[i]] = others.get(models[i], 0) + unheld
    if free >= wanted or not others:
        return
    total = int(table.allocatable[GPUS][usable].sum())
    held = f"all {gpus(total)}" if not free else f"{number((total - free) / 1000)} of {gpus(total)}"
    told = some(
        [f"{model} ({gpus(amount)})" for model, amount in sorted(others.items(), key=lambda one: (-one[1], one[0]))]
    )
    yield f"Of {some(sorted(own))}, which it may use, {held} are held; of other models there are free: {told}."
