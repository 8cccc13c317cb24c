"""Owners that only wrap another workload: Argo Workflow, TrainJob, run:ai workloads, DynamoGraphDeployment.

The pod is grouped by the owner below the wrapper (or as a bare pod, if there is none), which takes over the wrapper's
labels and annotations where it has none of the same name, after the defaults for the wrapper's kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kailab.cluster.protocol import Object
from kailab.grouping.family import Context, Family
from kailab.grouping.fields import group_version
from kailab.grouping.priority import kind_defaults
from kailab.grouping.records import Plan
from kailab.model.labels import PREEMPTIBILITY, PRIORITY_CLASS
from kailab.model.objects import annotations_of, labels_of


def _wrapper(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    below = chain[-2] if len(chain) > 1 else pod
    defaults = kind_defaults(top, context)
    given = {PRIORITY_CLASS: defaults.priority_class, PREEMPTIBILITY: defaults.preemptibility}
    own = labels_of(below)
    defaulted = {**{key: value for key, value in given.items() if value}, **own}
    inner = _with_metadata(below, {**labels_of(top), **defaulted}, {**annotations_of(top), **annotations_of(below)})
    # The chain keeps its own labels but for the defaults: only the inner owner itself inherits.
    owners = [*chain[:-2], _with_metadata(below, defaulted, annotations_of(below))] if len(chain) > 1 else []
    group, _ = group_version(inner.get("apiVersion") or "v1")
    return context.family_for(group, inner.get("kind") or "Pod").plan(inner, pod, owners, context)


def _with_metadata(obj: Object, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": dict(labels), "annotations": dict(annotations)}}


WRAPPER = Family("wrapper", _wrapper, per_owner=False)
