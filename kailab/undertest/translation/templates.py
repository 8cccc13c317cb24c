"""Objects with their pods said anew: whose they are to place, and what else a scheduler reads of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from kailab.cluster.protocol import Object
from kailab.model import labels
from kailab.model.validation.hints import pod_templates
from kailab.undertest.translation.work import Work

Say = Callable[[dict[str, Any], dict[str, Any], Work], None]
"""(metadata, spec, work): changes the metadata and the spec of the pods of one template."""


def said(obj: Object, works: list[Work], scheduler_name: str, say: Say) -> Object:
    """A copy of an object whose pods are that scheduler's, with the queue that KAI would count them for on each of them."""
    new = copy.deepcopy(obj)
    by_path = {work.path: work for work in works}
    for path, template in pod_templates(new):
        work = by_path.get(path)
        if work is None:
            continue
        spec, metadata = template["spec"], template.setdefault("metadata", {})
        spec["schedulerName"] = scheduler_name
        # KAI reads it of an owner, too; whoever counts pods reads it of them.
        metadata.setdefault("labels", {}).setdefault(labels.QUEUE, work.queue)
        if work.priority_class:
            spec["priorityClassName"] = work.priority_class
        say(metadata, spec, work)
    return new
