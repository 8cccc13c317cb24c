"""Exclusive placement: each Job of a JobSet has a domain of a topology to itself.

The first pod of a Job, its leader, gets an affinity to the pods of its own Job and an anti-affinity to those of other Jobs with the same
priority. The other pods are refused until the leader is on a node, and then get the leader's domain as their node selector. With the
annotation ``node-selector`` a Job instead selects the nodes that an administrator has labelled and tainted for it. Source: JobSet v0.12.0,
pkg/webhooks/pod_webhook.go, pkg/controllers/pod_controller.go. A pod in another domain than its leader is deleted and made again, as its
documentation says and the code after v0.12.0 does; v0.12.0 itself only reports it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kailab.cluster.protocol import Cluster, find_object
from kailab.errors import Forbidden
from kailab.model.objects import Object, annotations_of, is_active, labels_of, node_of, spec_of

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_JOBSET = "jobset.sigs.k8s.io/"
_ALPHA = "alpha.jobset.sigs.k8s.io/"
JOB_KEY = _JOBSET + "job-key"
_JOBSET_NAME = _JOBSET + "jobset-name"
_PRIORITY = _JOBSET + "priority"
EXCLUSIVE = _ALPHA + "exclusive-topology"
NODE_SELECTOR = _ALPHA + "node-selector"
_INDEX = "batch.kubernetes.io/job-completion-index"


def placement_annotations(job_set: Object, template: Object) -> dict[str, str]:
    """The annotations of exclusive placement for a Job and its pods. Those of the Job's ``template``
    override those of the JobSet."""
    result: dict[str, str] = {}
    for given in (annotations_of(job_set), annotations_of(template)):
        if EXCLUSIVE in given:
            result |= {key: given[key] for key in (EXCLUSIVE, NODE_SELECTOR) if key in given}
    return result


def reserved_nodes(annotations: dict[str, str], namespace: str, job: str, spec: Object) -> Object:
    """The pod spec of a Job, for the nodes that are labelled and tainted for the Job if its annotations say so."""
    if NODE_SELECTOR not in annotations:
        return spec
    toleration = {"key": _ALPHA + "no-schedule", "operator": "Exists", "effect": "NoSchedule"}
    return {
        **spec,
        "nodeSelector": {**(spec.get("nodeSelector") or {}), _ALPHA + "namespaced-job": f"{namespace}_{job}"},
        "tolerations": [*(spec.get("tolerations") or ()), toleration],
    }


def place_exclusively(cluster: Cluster, pod: Object, siblings: Iterable[Object]) -> Object:
    """A new pod of a Job as JobSet's webhook changes it. ``siblings``: the pods of its Job. Raises Forbidden for a pod that must wait for
    its leader."""
    annotations = annotations_of(pod)
    if _JOBSET_NAME not in annotations or NODE_SELECTOR in annotations:
        return pod
    metadata, spec = pod["metadata"], pod["spec"]
    priority = str(spec.get("priority", 0))
    pod = {**pod, "metadata": {**metadata, "labels": {**labels_of(pod), _PRIORITY: priority}}}
    topology = annotations.get(EXCLUSIVE)
    if topology is None:
        return pod
    if _is_leader(pod):
        same_priority = {"key": _PRIORITY, "operator": "In", "values": [priority]}
        key = labels_of(pod)[JOB_KEY]
        affinity = exclusive_affinity(spec.get("affinity") or {}, topology, JOB_KEY, key, repels=same_priority)
        return {**pod, "spec": {**spec, "affinity": affinity}}
    leader = next((sibling for sibling in siblings if _is_leader(sibling) and is_active(sibling)), None)
    domain = None if leader is None else domain_of(cluster, leader, topology)
    if domain is None:
        raise Forbidden(
            f"its leader is not on a node with the label {topology} yet, so the pod does not know its domain (JobSet's webhook)"
        )
    return {**pod, "spec": {**spec, "nodeSelector": {**(spec.get("nodeSelector") or {}), topology: domain}}}


def is_placed_exclusively(template: Object) -> bool:
    """Whether the pods of a template follow a leader into its domain."""
    annotations = annotations_of(template)
    return _JOBSET_NAME in annotations and EXCLUSIVE in annotations and NODE_SELECTOR not in annotations


def misplaced_pods(cluster: Cluster, pods: Iterable[Object]) -> list[Object]:
    """The pods of a Job that select another domain than that of their leader. ``pods``: the active pods of the Job."""
    pods = list(pods)
    leader = next(filter(_is_leader, pods), None)
    if leader is None:
        return []
    topology = annotations_of(leader)[EXCLUSIVE]
    domain = domain_of(cluster, leader, topology)
    if domain is None:
        return []
    return [
        pod for pod in pods if not _is_leader(pod) and (spec_of(pod).get("nodeSelector") or {}).get(topology) != domain
    ]


def _is_leader(pod: Object) -> bool:
    return annotations_of(pod).get(_INDEX) == "0"


def domain_of(cluster: Cluster, leader: Object, topology: str) -> str | None:
    """The domain of the node of a leader; None if it is on no node, or its node is in no domain."""
    name = node_of(leader)
    node = find_object(cluster, "Node", name, None) if name else None
    return None if node is None else labels_of(node).get(topology)


def exclusive_affinity(
    affinity: Object, topology: str, label: str, value: str, *, repels: Object | None = None
) -> Object:
    """An affinity that keeps pods with the same value of a label in one domain, and those with other values out of it.

    ``repels``: a further requirement of JobSet on the pods that are kept out. JobSet's terms count pods of all namespaces, and
    LeaderWorkerSet's those of the pod's own. LeaderWorkerSet adds no terms to an affinity that has such terms of the same topology.
    """
    if repels is None and all(_has_term(affinity, kind, topology) for kind in ("podAffinity", "podAntiAffinity")):
        return affinity
    everywhere: Object = {} if repels is None else {"namespaceSelector": {}}
    own = {"key": label, "operator": "In", "values": [value]}
    others = [{"key": label, "operator": "Exists"}, {"key": label, "operator": "NotIn", "values": [value]}]
    if repels is not None:
        others.append(repels)
    result = dict(affinity)
    for kind, expressions in (("podAffinity", [own]), ("podAntiAffinity", others)):
        given = affinity.get(kind) or {}
        term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology, **everywhere}
        result[kind] = {**given, _REQUIRED: [*(given.get(_REQUIRED) or ()), term]}
    return result


def _has_term(affinity: Object, kind: str, topology: str) -> bool:
    terms = (affinity.get(kind) or {}).get(_REQUIRED) or ()
    return any(term.get("topologyKey") == topology for term in terms)
