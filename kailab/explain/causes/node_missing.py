"""What work names and there is not, or is not for it: claims, ConfigMaps, topologies and their levels, a node pool that is served."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.engine.relaxing.rules import NodesAdded, TopologyGone
from kailab.explain.cause import Cause, Code, Ref
from kailab.explain.causes.case import Case
from kailab.explain.causes.node_ground import constraints
from kailab.lab.wording import some
from kailab.model.labels import NODE_POOL
from kailab.scheduler.reading import references
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.podgroups import node_pool


def pool(case: Case) -> Iterable[Cause]:
    """The PodGroup, its queue or the nodes that it could use belong to a node pool of another scheduler."""
    served, group = case.lab.spec.node_pool, case.podgroup
    if group is None or case.record is None:
        own = node_pool(group["metadata"]) if group is not None else served
        if own != served:
            yield _not_served(
                f"It belongs to the node pool {own}", own, served, Ref("PodGroup", *case.group.split("/", 1))
            )
        return
    queue = next((one for one in case.lab.cluster.list("Queue") if one["metadata"]["name"] == case.queue), None)
    if queue is not None and (of := node_pool(queue["metadata"])) != served:
        yield _not_served(
            f"Its queue {case.queue} belongs to the node pool {of}", of, served, Ref("Queue", "", case.queue)
        )
    else:
        yield from _nodes_elsewhere(case, served)


def _nodes_elsewhere(case: Case, served: str) -> Iterable[Cause]:
    """Where no node of this pool could take it, and nodes of others could; where this pool has no nodes, whatever those others are."""
    ground = case.ground
    pools = {name: own for name, node in case.picture.nodes.items() if (own := node_pool(node["metadata"])) != served}
    if not pools or ground is None:
        return
    if not len(ground.table):
        used = sorted(pools)
        who = f"Every node that there is ({some(used)}) belongs"
    else:
        if not ground.ready or not ground.topologies_known or ground.starts_alone().further:
            return
        others = NodesAdded(tuple(node_record(case.picture.nodes[name]) for name in sorted(pools)))
        used = sorted({bind.node for bind in ground.starts_alone(others).binds} & pools.keys())
        who = f"{some(used)}, where it could run, {'belongs' if len(used) == 1 else 'belong'}"
    if used:
        names = sorted({pools[name] for name in used})
        what = f"{who} to the node pool {some(names)}"
        yield _not_served(what, names[0], served, *(Ref("Node", "", name) for name in used[:4]))


def _not_served(what: str, name: str, served: str, *about: Ref) -> Cause:
    return Cause(
        Code.NODE_POOL_NOT_SERVED,
        f"{what} (label {NODE_POOL}), and this scheduler serves only the pool {served}.",
        about,
        {"pool": name, "served": served},
    )


def volume(case: Case) -> Iterable[Cause]:
    """A claim or a ConfigMap that its pods use is not there."""
    said = {text: task for task in case.waiting for text in task.shape.blocked}
    if not said:
        return
    missing: dict[str, references.Reference] = {}
    for row in case.pods:
        for one in references.of_pod(case.pod(row)):
            missing.setdefault(references.sentence(one), one)
    named = [missing[text] for text in said if text in missing]
    if named:
        told = some([f"{_KINDS[one.kind]} {one.name}" for one in named])
        uses = "A pod of it uses" if case.subject.kind != "Pod" else "It uses"
        yield Cause(
            Code.VOLUME_MISSING,
            f"{uses} {told}, which {'is' if len(named) == 1 else 'are'} not there in namespace {named[0].namespace}: no node takes it.",
            tuple(Ref(*one) for one in named),
            {"missing": [{"kind": one.kind, "namespace": one.namespace, "name": one.name} for one in named]},
        )
    for text in said:
        if text not in missing and "claim" in text:
            yield Cause(Code.VOLUME_MISSING, f"No node takes it: {text}.")


def claim(case: Case) -> Iterable[Cause]:
    """A resource claim that no pod can use as it is: it lacks the queue's label, or has no place for one more pod."""
    if case.ground is None:
        return
    claims = case.ground.table.claims
    refusals = (claims.refusal(task.uid, task.shape, case.queue) for task in case.waiting if task.shape.claims)
    refused = next((one for one in refusals if one is not None), None)
    if refused is not None:
        yield Cause(
            Code.CLAIM_REFUSED,
            f"No node takes it: {refused.why}.",
            (Ref("ResourceClaim", *refused.claim.split("/", 1)),),
            {"claim": refused.claim},
        )


_KINDS = {"PersistentVolumeClaim": "the volume claim", "ConfigMap": "the ConfigMap"}


def topology(case: Case) -> Iterable[Cause]:
    """It names a topology that there is not, or a level that its topology has not."""
    if case.trials is None or case.record is None:
        return
    known = {one.name: one for one in case.moment.snapshot.topologies}
    for constraint in constraints(case.record.root):
        there = known.get(constraint.topology)
        if there is None:
            close = f"; there are {some(sorted(known))}" if known else "; there is none"
            yield Cause(
                Code.TOPOLOGY_UNKNOWN,
                f"It names the topology {constraint.topology}, which there is not{close}.",
                (Ref("Topology", "", constraint.topology),),
                {"topology": constraint.topology, "known": sorted(known)},
            )
            return
        levels = [one for one in (constraint.required, constraint.preferred) if one]
        unknown = [one for one in levels if one not in there.levels]
        has = f"topology {constraint.topology} has the levels {', '.join(there.levels)}"
        if unknown or not levels:
            what = f"the level {unknown[0]}" if unknown else "no level"
            rest = ", which there is not" if unknown else " of it"
            yield Cause(
                Code.TOPOLOGY_UNKNOWN,
                f"It names {what} of topology {constraint.topology}{rest}: {has}."
                if unknown
                else f"It names topology {constraint.topology}, but{' ' + what}{rest}: {has}.",
                (Ref("Topology", "", constraint.topology),),
                {"topology": constraint.topology, "levels": list(there.levels), "unknown": unknown},
            )
            return
        without = {
            level: sum(level not in dict(node.labels) for node in case.moment.snapshot.nodes) for level in there.levels
        }
        bare = [level for level, number in without.items() if number == len(case.moment.snapshot.nodes)]
        if bare and case.trials(TopologyGone()) != case.trials():
            yield Cause(
                Code.TOPOLOGY_UNKNOWN,
                f"It has to be in a domain of topology {constraint.topology}, and no node has the label {bare[0]} of that topology.",
                (Ref("Topology", "", constraint.topology),),
                {"topology": constraint.topology, "unknown": bare},
            )
            return
