"""Proposals about nodes and placement: uncordon, untaint, label or add nodes; change selectors, affinity, tolerations and topology."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from difflib import SequenceMatcher
from typing import Any

from kailab.cluster.protocol import Object
from kailab.errors import InputError
from kailab.evidence.wording import count, some
from kailab.explain.steps.proposals import (
    ChangeData,
    Disturbance,
    Edit,
    Proposal,
    ProposalFamily,
    all_edits,
    correction,
    edit_of_pods,
    own_change,
    patch_change,
    set_annotation,
)
from kailab.explain.steps.question_context import QuestionContext
from kailab.lab.node_changes import nodes_to_add
from kailab.model import labels
from kailab.model.kind import field_of
from kailab.model.objects import name_of, spec_of
from kailab.model.quantities import parse_count
from kailab.model.suggestions import meant_name
from kailab.scheduler.reading.nodes import gpu_memory, unavailable

ADDED_NODES = (1, 2, 3, 4, 6, 8, 12, 16)
"""Numbers of nodes that are added to a pool."""
MOST_POOLS = 3
SINGLE_NODES = 4
"""Nodes that are each tried alone."""
_CORDON = "node.kubernetes.io/unschedulable"


def uncordon(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Uncordon as few nodes as are enough."""
    cordoned = [node for node in context.nodes.values() if (node.get("spec") or {}).get("unschedulable")]
    yield from node_subsets(cordoned, "Uncordon node {}", _uncordoned)


def make_ready(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Make nodes ready again. Their pods stay where they are."""
    bad = [node for node in context.nodes.values() if unavailable({}, node.get("status") or {})]
    yield from node_subsets(bad, "Make node {} ready again", _made_ready)


def _made_ready(node: Object) -> tuple[ChangeData, ...]:
    given = patch_change(node, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    return ({"patch": {**given["patch"], "subresource": "status"}},)


def make_ready_for_pods_that_leave(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Make the nodes ready again on which its pods can't end."""
    names = context.state.held_up
    if names:
        nodes = [node for node in context.lab.cluster.list("Node") if name_of(node) in names]
        changes = tuple(change for node in nodes for change in _made_ready(node))
        yield ProposalFamily.of([Proposal(f"Make node {_names(nodes)} ready again", changes, Disturbance.NODES)])


def remove_taints(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Remove the taints of as few nodes as are enough."""
    tainted = [node for node in context.nodes.values() if any(map(_removable, field_of(node, "spec.taints") or ()))]
    yield from node_subsets(tainted, _untainting, _untainted)


def _untainting(nodes: Sequence[Object]) -> str:
    """Words that name each taint with its nodes."""
    having: dict[str, list[str]] = {}
    for node in nodes:
        for key in sorted({taint["key"] for taint in node["spec"]["taints"] if _removable(taint)}):
            having.setdefault(key, []).append(node["metadata"]["name"])
    return "Remove " + " and ".join(f"the taint {key} from node {some(names)}" for key, names in having.items())


def label_gpu_memory(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Label nodes with the memory of their GPUs: the value of other nodes of the same model, else one that is large enough."""
    silent = [node for node in context.nodes.values() if not gpu_memory(node["metadata"].get("labels") or {})]
    notes = ((context.pod or {}).get("metadata") or {}).get("annotations") or {}
    asked = -(-parse_count(notes.get(labels.GPU_MEMORY)) // 1024) * 1024
    known = {
        marks.get(labels.GPU_PRODUCT): marks[labels.GPU_NODE_MEMORY]
        for node in context.nodes.values()
        if labels.GPU_NODE_MEMORY in (marks := node["metadata"].get("labels") or {})
    }

    def memory(node: Object) -> str:
        return str(known.get((node["metadata"].get("labels") or {}).get(labels.GPU_PRODUCT)) or asked)

    def label(node: Object) -> tuple[ChangeData, ...]:
        return (patch_change(node, {"metadata": {"labels": {labels.GPU_NODE_MEMORY: memory(node)}}}),)

    def words(nodes: Sequence[Object]) -> str:
        tried = some(sorted({memory(node) for node in nodes}))
        return f"Label node {_names(nodes)} {labels.GPU_NODE_MEMORY} with the MiB that each of its GPUs has (tried with {tried})"

    if silent and asked:
        yield from node_subsets(silent, words, label)


def add_nodes(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Add as few nodes to a pool as are enough, pools with most GPUs a node first."""
    pools: dict[str, Object] = {}
    for name, node in context.nodes.items():
        pools.setdefault(name.rstrip("0123456789").rstrip("-") or name, node)
    for pool in sorted(pools, key=lambda prefix: (-_gpus(pools[prefix]), prefix))[:MOST_POOLS]:
        proposals = []
        for number in ADDED_NODES:
            try:
                change = nodes_to_add(context.lab, f"{pool}:{number}").data()
            except InputError:  # the node names belong to no pool
                break
            do = f"Add {count(sum(obj['kind'] == 'Node' for obj in change['apply']), 'node')} to the pool {pool}"
            proposals.append(Proposal(do, (change,), Disturbance.ADDED))
        yield ProposalFamily(tuple(proposals), grows=True)


def _names(nodes: Sequence[Object]) -> str:
    return some([node["metadata"]["name"] for node in nodes])


def node_subsets(
    nodes: Sequence[Object],
    do: str | Callable[[Sequence[Object]], str],
    change: Callable[[Object], Sequence[ChangeData]],
) -> Iterator[ProposalFamily]:
    """A family that changes one of the first nodes alone, then more and more of them. ``do``: words with a place for the nodes' names, or a
    function of the nodes."""
    numbers = [2**power for power in range(1, 12) if 2**power < len(nodes)]
    chosen = [[node] for node in nodes[:SINGLE_NODES]]
    chosen += [list(nodes[:number]) for number in (*numbers, len(nodes)) if number > 1]
    if chosen:
        yield ProposalFamily.of(
            Proposal(
                do.format(_names(some_nodes)) if isinstance(do, str) else do(some_nodes),
                tuple(node_change for node in some_nodes for node_change in change(node)),
                Disturbance.NODES,
            )
            for some_nodes in chosen
        )


def _uncordoned(node: Object) -> tuple[ChangeData, ...]:
    left = [taint for taint in field_of(node, "spec.taints") or () if taint["key"] != _CORDON]
    taints = {"taints": left} if field_of(node, "spec.taints") else {}
    return (patch_change(node, {"spec": {"unschedulable": False, **taints}}),)


def _untainted(node: Object) -> tuple[ChangeData, ...]:
    return (
        patch_change(node, {"spec": {"taints": [taint for taint in node["spec"]["taints"] if not _removable(taint)]}}),
    )


def _removable(taint: dict[str, Any]) -> bool:
    return taint.get("effect") in ("NoSchedule", "NoExecute") and not taint["key"].startswith("node.kubernetes.io/")


def _gpus(node: Object) -> int:
    return parse_count(str((field_of(node, "status.allocatable") or {}).get(labels.GPU_RESOURCE, 0)))


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
# Labels of a node's hardware. On another node they would be false, and the pods would fail there.
_OF_HARDWARE = ("nvidia.com/", "amd.com/", "kubernetes.io/", "node.kubernetes.io/", "beta.kubernetes.io/")
_OF_KUBERNETES = "node.kubernetes.io/"
MOST_VALUES = 3
"""Values of a label that are tried at most."""


def change_node_selector(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Change the node selector to values that nodes have, or remove a label or the whole selector."""
    if context.pod is None:
        return
    selector: dict[str, str] = context.pod["spec"].get("nodeSelector") or {}
    # Labels with a value that no node has are the reason; without such labels it is their combination.
    unmet = [key for key, value in selector.items() if _values(context, key)[value] == 0]
    for key in unmet or selector:
        meant = meant_name(selector[key], _values(context, key)) if key in unmet else None
        for value in _alike(_values(context, key), selector[key], meant)[:MOST_VALUES]:
            do = f"Select nodes by {key}={value} (now {selector[key]})"
            yield ProposalFamily.of(
                own_change(context, do, edit_of_pods(_selecting({key: value}))), corrects=correction(value, meant)
            )
        do = f"Remove {key}={selector[key]} from its node selector"
        yield ProposalFamily.of(own_change(context, do, edit_of_pods(_selecting({key: None}))))
    if len(selector) > 1:
        do = "Remove its node selector"
        yield ProposalFamily.of(own_change(context, do, edit_of_pods(_selecting(dict.fromkeys(selector)))))


def change_node_affinity(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Change the required node affinity to values that nodes have, or to a preference."""
    if context.pod is None:
        return
    terms = _terms(context.pod)
    for key, values in sorted(
        {
            expression["key"]: tuple(expression.get("values") or ())
            for term in terms
            for expression in term
            if expression.get("operator") == "In"
        }.items()
    ):
        existing = _values(context, key)
        if any(existing[value] for value in values):
            continue
        meant = meant_name(values[0], existing) if len(values) == 1 else None
        for value in _alike(existing, values[0] if values else "", meant)[:MOST_VALUES]:
            do = f"Require {key} in [{value}] by its node affinity (now [{', '.join(values)}])"
            yield ProposalFamily.of(
                own_change(context, do, edit_of_pods(_requiring(key, value))), corrects=correction(value, meant)
            )
    if terms:
        do = "Make its required node affinity a preference"
        yield ProposalFamily.of(own_change(context, do, edit_of_pods(_preferring_nodes)))


def tolerate_taints(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Tolerate the most frequent sets of taints, then all taints."""
    sets = Counter(
        tuple(
            sorted(
                (taint["key"], taint.get("effect", ""))
                for taint in field_of(node, "spec.taints") or ()
                if _keeps_off(taint)
            )
        )
        for node in context.nodes.values()
    )
    frequent = [
        taint_set for taint_set in sorted(sets, key=lambda taint_set: (-sets[taint_set], taint_set)) if taint_set
    ]
    every = tuple(sorted({taint for taints in frequent for taint in taints}))
    for taints in dict.fromkeys((*frequent[:MOST_VALUES], every)):
        if taints:
            do = f"Add a toleration for the taint {some([f'{key}:{effect}' for key, effect in taints])}"
            yield ProposalFamily.of(own_change(context, do, edit_of_pods(_tolerating(taints))))


def relax_pod_affinity(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Turn required pod affinity or anti-affinity into a preference."""
    for field, what in (("podAntiAffinity", "anti-affinity"), ("podAffinity", "affinity to other pods")):
        if context.pod is not None and field_of(context.pod, f"spec.affinity.{field}.{_REQUIRED}"):
            do = f"Make its required {what} a preference"
            yield ProposalFamily.of(own_change(context, do, edit_of_pods(_preferring_pods(field))))


def label_nodes(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Label as few nodes as are enough as the node selector demands, except with hardware labels."""
    selector: dict[str, str] = (context.pod or {}).get("spec", {}).get("nodeSelector") or {}
    if not selector or any(key.startswith(_OF_HARDWARE) for key in selector):
        return
    labels_text = ", ".join(f"{key}={value}" for key, value in selector.items())
    change = {"metadata": {"labels": dict(selector)}}
    yield from node_subsets(
        list(context.nodes.values()), f"Label node {{}} {labels_text}", lambda node: (patch_change(node, change),)
    )


def _keeps_off(taint: dict[str, Any]) -> bool:
    # Taints of Kubernetes mark an unhealthy node, which a toleration would not mend.
    return taint.get("effect") in ("NoSchedule", "NoExecute") and not taint["key"].startswith(_OF_KUBERNETES)


def _values(context: QuestionContext, key: str) -> Counter[str]:
    """The values of a label, with the number of nodes that have them."""
    values = ((node["metadata"].get("labels") or {}).get(key) for node in context.nodes.values())
    return Counter(value for value in values if value is not None)


def _alike(values: Counter[str], to: str, meant: str | None) -> list[str]:
    """The other values: the one that was clearly meant, then the most similar; of equal ones those of most nodes."""
    return sorted(
        (value for value in values if value != to),
        key=lambda value: (
            value != meant,
            -round(SequenceMatcher(None, value.lower(), to.lower()).ratio(), 1),
            -values[value],
            value,
        ),
    )


def _terms(pod: Object) -> list[list[dict[str, Any]]]:
    terms = field_of(pod, f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms") or ()
    return [list(term.get("matchExpressions") or ()) for term in terms]


def _selecting(change: dict[str, str | None]) -> Edit:
    def edit(pod: Object) -> None:
        selector = {**(pod["spec"].get("nodeSelector") or {}), **change}
        pod["spec"]["nodeSelector"] = {key: value for key, value in selector.items() if value is not None}
        if not pod["spec"]["nodeSelector"]:
            del pod["spec"]["nodeSelector"]

    return edit


def _requiring(key: str, value: str) -> Edit:
    def edit(pod: Object) -> None:
        for term in _terms(pod):
            for expression in term:
                if expression["key"] == key and expression.get("operator") == "In":
                    expression["values"] = [value]

    return edit


def _preferring_nodes(pod: Object) -> None:
    affinity = field_of(pod, "spec.affinity.nodeAffinity")
    required = affinity.pop(_REQUIRED, None) if isinstance(affinity, dict) else None
    for term in (required or {}).get("nodeSelectorTerms") or ():
        affinity.setdefault(_PREFERRED, []).append({"weight": 100, "preference": term})


def _preferring_pods(field: str) -> Edit:
    def edit(pod: Object) -> None:
        affinity = field_of(pod, f"spec.affinity.{field}")
        for term in affinity.pop(_REQUIRED, None) or () if isinstance(affinity, dict) else ():
            affinity.setdefault(_PREFERRED, []).append({"weight": 100, "podAffinityTerm": term})

    return edit


def _tolerating(taints: tuple[tuple[str, str], ...]) -> Edit:
    def edit(pod: Object) -> None:
        given = deepcopy(pod["spec"].get("tolerations") or [])
        new = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints]
        pod["spec"]["tolerations"] = given + [toleration for toleration in new if toleration not in given]

    return edit


_FIELDS = {
    labels.TOPOLOGY: "topology",
    labels.TOPOLOGY_REQUIRED: "requiredTopologyLevel",
    labels.TOPOLOGY_PREFERRED: "preferredTopologyLevel",
}


def name_existing_topology(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Name the existing topology and levels that are most similar to the named ones."""
    asked = _asked(context)
    topologies = _levels(context)
    if not asked.get(labels.TOPOLOGY):
        return
    named = asked[labels.TOPOLOGY]
    meant = meant_name(named, topologies) if named not in topologies else None
    alike = sorted(topologies, key=lambda name: (name != meant, -_ratio(name, named), name))
    for name in alike[:2]:
        change: dict[str, str | None] = {labels.TOPOLOGY: name}
        for key in (labels.TOPOLOGY_REQUIRED, labels.TOPOLOGY_PREFERRED):
            level = asked.get(key)
            if level and level not in topologies[name]:
                change[key] = _most_alike(topologies[name], level)
        names = ", ".join(f"{_FIELDS[key]} {value}" for key, value in change.items() if asked.get(key) != value)
        if names:
            yield ProposalFamily.of(
                _changed(context, f"Name an existing topology: {names}", change), corrects=correction(name, meant)
            )


def widen_topology_level(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Require a wider level of the topology, the nearest first."""
    asked = _asked(context)
    required = asked.get(labels.TOPOLOGY_REQUIRED)
    levels = _levels(context).get(asked.get(labels.TOPOLOGY, ""), [])
    if required not in levels:
        return
    proposals: list[Proposal] = []
    for level in reversed(levels[: levels.index(required)]):
        do = f"Require one {level} instead of one {required}"
        proposals += _changed(context, do, {labels.TOPOLOGY_REQUIRED: level})
    if proposals:
        yield ProposalFamily(tuple(proposals))


def prefer_topology_level(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Prefer the level instead of requiring it."""
    asked = _asked(context)
    if required := asked.get(labels.TOPOLOGY_REQUIRED):
        do = f"Prefer one {required} instead of requiring it"
        change = {labels.TOPOLOGY_REQUIRED: None, labels.TOPOLOGY_PREFERRED: required}
        yield ProposalFamily.of(_changed(context, do, change))


def remove_topology(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Request no topology."""
    if asked := _asked(context):
        do = f"Ask for no topology (remove {', '.join(sorted(asked))})"
        yield ProposalFamily.of(_changed(context, do, dict.fromkeys(_FIELDS)))


def _changed(context: QuestionContext, do: str, change: Mapping[str, str | None]) -> Iterator[Proposal]:
    edit = all_edits(*(set_annotation(key, value) for key, value in change.items()))

    def group(podgroup: Object) -> dict[str, Any]:
        if not spec_of(podgroup).get("topologyConstraint"):
            return {}
        if change.get(labels.TOPOLOGY, "") is None:
            return {"spec": {"topologyConstraint": None}}
        # None removes a field in a merge patch.
        return {"spec": {"topologyConstraint": {_FIELDS[key]: value for key, value in change.items()}}}

    yield from own_change(context, do, edit, group)


def _asked(context: QuestionContext) -> dict[str, str]:
    """Topology annotation -> value, of the workload or of a PodGroup that a user created."""
    for work in context.works:
        notes = work["metadata"].get("annotations") or {}
        if asked := {key: str(notes[key]) for key in _FIELDS if notes.get(key)}:
            return asked
    for group in context.groups:
        block = spec_of(group).get("topologyConstraint") or {}
        if asked := {key: str(block[field]) for key, field in _FIELDS.items() if block.get(field)}:
            return asked
    return {}


def _levels(context: QuestionContext) -> dict[str, list[str]]:
    """Topology -> node labels of its levels, the widest first."""
    return {
        topology["metadata"]["name"]: [
            level["nodeLabel"] for level in topology["spec"].get("levels") or () if level.get("nodeLabel")
        ]
        for topology in context.lab.cluster.list("Topology")
    }


def _most_alike(names: Iterable[str], to: str) -> str | None:
    return max(names, key=lambda name: (_ratio(name, to), name), default=None)


def _ratio(name: str, other: str) -> float:
    return round(SequenceMatcher(None, name, other).ratio(), 2)
