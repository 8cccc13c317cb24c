"""Owners whose pods are one PodGroup that one pod is enough for, apart from their default priority class.

StatefulSet, ReplicaSet, DaemonSet and every kind without a family of its own are ``default``; a Kubeflow Notebook is
``build`` work; a SPOTRequest serves, so ``inference``; an AmlJob needs all its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from kailab.cluster.protocol import Object
from kailab.grouping.default import default_grouping
from kailab.grouping.family import Context, Family
from kailab.grouping.fields import integer, title
from kailab.grouping.priority import BUILD, INFERENCE
from kailab.grouping.records import GroupingError, Plan


def _default(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    # As in KAI, the whole chain counts here: priority and preemptibility may stand on an owner in between.
    return Plan(default_grouping(top, pod, chain, context))


def _notebook(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    return Plan(default_grouping(top, pod, (), context, BUILD))


def _spot_request(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    return Plan(default_grouping(top, pod, (), context, INFERENCE))


def _aml_job(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    grouping = default_grouping(top, pod, (), context)
    nodes = integer(top, "spec", "job", "options", "envs", "AZUREML_NODE_COUNT")
    if nodes is None:
        raise GroupingError(f"{title(top)}: spec.job.options.envs.AZUREML_NODE_COUNT is missing")
    grouping.min_member = nodes
    return Plan(grouping)


DEFAULT = Family("default", _default)
NOTEBOOK = Family("notebook", _notebook)
SPOT_REQUEST = Family("spotrequest", _spot_request)
AML_JOB = Family("amljob", _aml_job)
