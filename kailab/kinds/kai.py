"""KAI's own kinds, with the versions of its CRDs that kailab reads (all of them) and writes (the first).

A new version of a CRD is added here. Code uses ``api_version_of("Queue")`` for the version to write.
"""

from __future__ import annotations

from typing import Any

from kailab.model.kind import Kind
from kailab.model.objects import Object


def _bare(obj: Object) -> Object:
    """Add an empty spec, which KAI allows to be missing."""
    return obj if "spec" in obj else {**obj, "spec": {}}


def _without_aliases(_: Object, topology: Object) -> Object:
    """A Topology without the aliases of its levels, which may change."""
    levels = [{key: value for key, value in level.items() if key != "alias"} for level in topology["spec"]["levels"]]
    return {**topology, "spec": {**topology["spec"], "levels": levels}}


def _kai(group: str, **parts: Any) -> Kind:
    return Kind(group=group, owns_pods=False, **parts)


KINDS = (
    _kai(
        "scheduling.run.ai",
        kind="Queue",
        versions=("v2",),
        plural="queues",
        namespaced=False,
        short=("q",),
        defaults=_bare,
        check="kailab.model.queues:check_queue",
        advice="kailab.model.queues:advise_queue",
        columns="kailab.cli.object_tables:QUEUE",
    ),
    _kai(
        "scheduling.run.ai",
        kind="PodGroup",
        versions=("v2alpha2",),
        plural="podgroups",
        short=("pg",),
        defaults=_bare,
        check="kailab.model.validation.scheduling:check_podgroup",
        spec_alone=True,
        advice="kailab.model.validation.scheduling:advise_podgroup",
        columns="kailab.cli.object_tables:POD_GROUP",
        in_all=True,
    ),
    _kai(
        "scheduling.run.ai",
        kind="BindRequest",
        versions=("v1alpha2",),
        plural="bindrequests",
        short=("br",),
        in_cluster="KAI's binder binds the pod that it names",
        shape="kailab.cluster.install.definitions:shape_of_bind_request",
    ),
    _kai(
        "kai.scheduler",
        kind="Topology",
        versions=("v1alpha1",),
        plural="topologies",
        namespaced=False,
        check="kailab.model.validation.scheduling:check_topology",
        immutable=("spec.levels",),
        fixed=_without_aliases,
        columns="kailab.cli.object_tables:TOPOLOGY",
    ),
    _kai(
        "kai.scheduler",
        kind="Config",
        versions=("v1",),
        plural="configs",
        namespaced=False,
        shape="kailab.cluster.install.definitions:shape_of_config",
        in_cluster="KAI's operator sets up its services by it",
    ),
    _kai(
        "kai.scheduler",
        kind="SchedulingShard",
        versions=("v1",),
        plural="schedulingshards",
        namespaced=False,
        shape="kailab.cluster.install.definitions:shape_of_scheduling_shard",
        in_cluster="KAI's operator runs a scheduler with its settings (`kailab up --config FILE` starts a lab with them)",
    ),
)
