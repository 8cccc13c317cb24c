"""The tree of queues as YuniKorn's configuration has it: quota is ``guaranteed``, limit is ``max``, priority is an offset.

As in KAI, priorities of work count within its queue alone (``priority.policy: fence``), and what is owned comes back at once:
``preemption.delay`` is as short as YuniKorn's clock has it.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import UNLIMITED, Queue
from kailab.scheduler.reading.queues import DEFAULT_PRIORITY
from kailab.undertest.contract import NotExpressible
from kailab.undertest.translation.queues import NAMES, RESOURCES, Queues, quantity, share
from kailab.undertest.yunikorn.words import CONFIG_KEY, CONFIG_MAP, NAME, NAMESPACE, ROOT

_NAMES = {**NAMES, "cpu": "vcore"}
_QUEUE_NAME = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")
_PREEMPTION_DELAY = "1s"
_NO_BOUND = {"pods": "1000000"}
"""A ``max`` of which every amount is 0 YuniKorn ignores (``setResources`` in pkg/scheduler/objects/queue.go of yunikorn-core 1.8.0), so
another resource stands beside the zeros, which every pod has one of."""

Amounts = dict[str, int]


def config_map(queues: Queues) -> Object:
    """The whole of its configuration."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
        "data": {CONFIG_KEY: yaml.safe_dump(configuration(queues), sort_keys=False)},
    }


def configuration(queues: Queues) -> dict[str, Any]:
    """As in ``queues.yaml``. Raises NotExpressible."""
    tops = [_queue(queues, queue, {}) for queue in queues.below("")]
    root: dict[str, Any] = {"name": ROOT, "submitacl": "*"}
    if tops:
        root["queues"] = tops
    # A pod may be seen before the change of the configuration that came before it: its queue is made then, and gets its amounts as
    # soon as they are read.
    placement = [{"name": "provided", "create": True}]
    return {"partitions": [{"name": "default", "placementrules": placement, "queues": [root]}]}


def path(queues: Queues, name: str) -> str:
    """Of a queue, as work names it."""
    return ".".join((ROOT, *queues.line(name)))


def _queue(queues: Queues, queue: Queue, above: Amounts) -> dict[str, Any]:
    """``above``: the limits of all above it."""
    if not _QUEUE_NAME.fullmatch(queue.name):
        raise NotExpressible(NAME, "queue of such a name", f"Queue/{queue.name}")
    most = _most(queue, above)
    least = _least(queues, queue, most)
    children = [_queue(queues, child, most) for child in queues.below(queue.name)]
    found: dict[str, Any] = {"name": queue.name}
    if children:
        found["parent"] = True
    resources = {
        "guaranteed": _said(least),
        "max": _said(most) | (_NO_BOUND if most and not any(most.values()) else {}),
    }
    found["resources"] = {name: amounts for name, amounts in resources.items() if amounts}
    found["properties"] = {
        "priority.policy": "fence",
        "priority.offset": str(queue.priority - DEFAULT_PRIORITY),
        "preemption.delay": _PREEMPTION_DELAY,
    }
    if children:
        found["queues"] = children
    return found


def _most(queue: Queue, above: Amounts) -> Amounts:
    """No more than any above it: YuniKorn refuses a ``max`` beyond the parent's."""
    own = {name: share(queue, name).limit for name in RESOURCES if share(queue, name).limit != UNLIMITED}
    return {name: min(limit, above.get(name, limit)) for name, limit in own.items()}


def _least(queues: Queues, queue: Queue, most: Amounts) -> Amounts:
    found = {}
    for name in RESOURCES:
        quota = share(queue, name).quota
        if quota == UNLIMITED:
            # Without a bound all that there is would be sure; of what nobody runs short of nothing need be.
            if name != "gpu" or queue.name in queues.parents:
                continue
            quota = queues.capacity(name)
        found[name] = min(quota, most.get(name, quota))
    return found


def _said(amounts: Amounts) -> dict[str, str]:
    # Thousandths it reads of CPUs alone.
    if amounts.get("gpu", 0) % 1000:
        raise NotExpressible(NAME, "part of a GPU", "quota or limit of a Queue")
    return {_NAMES[name]: quantity(name, amount) for name, amount in amounts.items()}
