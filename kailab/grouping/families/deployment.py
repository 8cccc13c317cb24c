"""Deployments: each replica is a PodGroup of its own, owned by its pod; it serves (``inference``) unless told
otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from kailab.cluster.protocol import Object
from kailab.grouping.default import default_grouping, pod_group_name, reference_to
from kailab.grouping.family import Context, Family
from kailab.grouping.priority import INFERENCE
from kailab.grouping.records import Plan


def _deployment(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    # Queue, labels and class come from the Deployment; only name and owner are the pod's.
    grouping = default_grouping(top, pod, (), context, INFERENCE)
    grouping.name = pod_group_name(pod)
    grouping.owner = reference_to(pod)
    return Plan(grouping)


DEPLOYMENT = Family("deployment", _deployment, per_owner=False)
