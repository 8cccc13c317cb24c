"""``cordon``, ``uncordon``, ``drain``, ``taint``, ``fail``, ``recover``: take nodes out of service and bring them back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kailab.cli import completion, labfile, options, terminal
from kailab.cli.objects import LabChange, ObjectOutcome, changing
from kailab.cli.selection import ObjectKey, fetch_objects, select_objects
from kailab.cli.table import render_table
from kailab.errors import InputError, InputErrors, Where
from kailab.evidence.wording import gpus, some
from kailab.model.manifests import Notice
from kailab.model.objects import Object, condition_of, labels_of, name_of, namespace_of, uid_of
from kailab.model.objects import full_name as pod_name
from kailab.model.quantities import format_gpu
from kailab.model.wording import count

if TYPE_CHECKING:
    from kailab.lab import Lab
    from kailab.lab.node_changes import DrainPreview, FailedReadyStatus

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NodeChange = Callable[["Lab", Object], str]
"""(lab, node) -> the outcome, in kubectl's words."""


class NodeTargets(NamedTuple):
    """The nodes that a command names, as the user typed them."""

    names: Sequence[str]
    selector: str
    everything: bool = False

    def find(self, lab: Lab) -> tuple[list[ObjectKey], list[Object]]:
        """The keys, and the nodes. Raises InputError."""
        bare = [name.partition("/")[2] if name.startswith(("node/", "nodes/")) else name for name in self.names]
        keys = select_objects(lab, ["nodes", *bare], "", self.selector, self.everything)
        return keys, fetch_objects(lab, keys)


_names = click.argument("names", nargs=-1, metavar="[NODE]...", shell_complete=completion.nodes, help="Nodes, by name.")
of_nodes = options.grouped("nodes", NodeTargets, _names, options.selector)


@click.command()
@of_nodes
@changing
def cordon(nodes: NodeTargets, change: LabChange) -> None:
    """Mark nodes unschedulable: no new pods are placed on them, and their present pods stay."""
    _change(nodes, change, lambda lab, node: _set_schedulable(lab, node, False))


@click.command()
@of_nodes
@changing
def uncordon(nodes: NodeTargets, change: LabChange) -> None:
    """Mark nodes schedulable."""
    _change(nodes, change, lambda lab, node: _set_schedulable(lab, node, True))


@click.command()
@of_nodes
@options.flag("--ignore-daemonsets", help="Leave pods of DaemonSets on the nodes.")
@options.flag("--force", help="Also delete pods that no controller recreates.")
@options.flag("--delete-emptydir-data", help="Also delete pods with data in an emptyDir.")
@options.flag("--disable-eviction", help="Delete the pods at once, whatever disruption budgets ask for.")
@options.flag("--preview", help="Change nothing; list what draining each node alone would evict, least first.")
@click.option(
    "--by",
    metavar="LABEL",
    default="",
    help="With --preview: one row for each value of this label, for all its nodes drained together, as in --by topology.kubernetes.io/rack.",
)
@changing
def drain(
    nodes: NodeTargets,
    ignore_daemonsets: bool,
    force: bool,
    delete_emptydir_data: bool,
    disable_eviction: bool,
    preview: bool,
    by: str,
    change: LabChange,
) -> None:
    """Cordon nodes and evict their pods, then run the lab until nothing changes any more.

    Disruption budgets are kept: the lab runs between evictions, so that other pods take the place of those that went. Exit code 1 if budgets
    allow no further eviction and pods remain. `--preview` answers which nodes can be drained without evicting training; without nodes it
    lists all. With `--by LABEL` it answers that for racks or pools.
    """
    if by and not preview:
        raise click.UsageError("--by needs --preview")
    if preview:
        _preview(nodes, by, change)
        return
    from kailab.lab.node_changes import drain_node, drain_obstacles, pods_to_drain
    from kailab.workloads.disruption import evictions, violated_budgets

    remaining: list[Notice] = []
    warnings: list[Notice] = []

    def delete_all(lab: Lab, node: Object) -> str:
        for step in drain_node(lab, name_of(node)):
            step.do(lab)
        return "drained"

    def evict(lab: Lab, node: Object) -> str:
        name = name_of(node)
        _set_schedulable(lab, node, False)
        # Pods that come back to the node later are not waited for, as by kubectl.
        wanted = {uid_of(lab.get("Pod", pod, namespace)) for namespace, pod in pods_to_drain(lab, name)}
        while True:
            pods = [lab.get("Pod", pod, namespace) for namespace, pod in pods_to_drain(lab, name)]
            found = evictions(lab.cluster, [pod for pod in pods if uid_of(pod) in wanted])
            for pod in found.allowed:
                lab.delete("Pod", name_of(pod), namespace_of(pod))
            if not found.blocked:
                break
            if not found.allowed or not change.settle:
                at = Where(object=f"node/{name}")
                remaining.extend(Notice(f"pod {pod_name(pod)} remains: {why}", at) for pod, why in found.blocked)
                return "cordoned"
            lab.settle()
        return "drained"

    def check(lab: Lab, nodes: Sequence[Object]) -> None:
        errors = [
            error
            for node in nodes
            for error in drain_obstacles(
                lab,
                name_of(node),
                daemons=not ignore_daemonsets,
                lone=not force,
                local=not delete_emptydir_data,
            )
        ]
        if errors:
            raise InputErrors.of(errors)
        if disable_eviction:
            leaving = {pod for node in nodes for pod in pods_to_drain(lab, name_of(node))}
            warnings.extend(Notice(warning, Where()) for warning in violated_budgets(lab.cluster, leaving))

    drain_one = delete_all if disable_eviction else evict
    _change(nodes, change, drain_one, check, lambda: (*warnings, *remaining))
    if remaining:
        raise click.exceptions.Exit(1)


def _preview_data(preview: DrainPreview, by: str) -> dict[str, Any]:
    data = asdict(preview)
    title = data.pop("title")
    named = {"label": by, "value": title} if by else {"node": title}
    if not by:
        del data["nodes"]
    return {**named, **data, "pods": preview.pods, "milli_gpus": preview.milli_gpus}


def _preview(nodes: NodeTargets, by: str, change: LabChange) -> None:
    """``by``: a label by which nodes are drained together; empty: each node alone."""
    from kailab.lab.node_changes import EvictedWork, preview_drains

    def described(work: EvictedWork) -> str:
        gang = f", less than its gang of {work.gang}" if work.gang else ""
        size = gpus(work.milli_gpus) if work.milli_gpus else count(work.pods, "pod")
        return f"{work.owner} of {work.namespace} ({size}{gang})"

    with labfile.read_lab(change.state) as lab:
        _, selected = nodes._replace(everything=not (nodes.names or nodes.selector)).find(lab)
        sets: dict[str, list[str]] = {}
        for node in selected:
            title = labels_of(node).get(by, "") if by else name_of(node)
            if title:
                sets.setdefault(title, []).append(name_of(node))
        if by and selected and not sets:
            raise InputError(f"--by: none of {count(len(selected), 'node')} has the label {by}")
        previews = preview_drains(lab, sets)
    if change.output == "json":
        terminal.say_json([_preview_data(each, by) for each in previews])
        return
    if not previews:
        terminal.notice("No resources found")
        return
    rows = [
        (
            each.title,
            *((str(len(each.nodes)),) if by else ()),
            format_gpu(each.milli_gpus),
            str(each.pods),
            str(len(each.obstacles)),
            some([described(work) for work in each.work], 3) or "-",
            "; ".join(each.blocked) or "-",
        )
        for each in previews
    ]
    terminal.say(
        render_table((*((by, "NODES") if by else ("NODE",)), "GPUS", "PODS", "REFUSED", "EVICTS", "BLOCKED BY"), rows)
    )
    free = sum(not each.milli_gpus for each in previews)
    what = count(len(previews), "value") + f" of {by}" if by else count(len(previews), "node")
    without = len(selected) - sum(len(each.nodes) for each in previews)
    missing = (
        f"{count(without, 'node')} without the label {'is' if without == 1 else 'are'} left out. " if without else ""
    )
    terminal.notice(
        f"{free} of {what} can be drained without evicting work on GPUs. {missing}"
        "REFUSED: pods for which drain asks --force or --delete-emptydir-data"
    )


@click.command()
@of_nodes
@options.flag("--not-ready", help="Ready becomes False instead of Unknown: the kubelet reports the failure itself.")
@changing
def fail(nodes: NodeTargets, not_ready: bool, change: LabChange) -> None:
    """Make nodes fail as if their kubelets were silent: Ready becomes Unknown, the node gets the taint node.kubernetes.io/unreachable, and its
    pods are evicted once their toleration (300 s) has expired: `kailab run --for 6m`."""
    ready: FailedReadyStatus = "False" if not_ready else "Unknown"
    _change(nodes, change, lambda lab, node: _fail_node(lab, node, ready))


@click.command()
@of_nodes
@changing
def recover(nodes: NodeTargets, change: LabChange) -> None:
    """Bring failed nodes back: their pods continue, and pods that were evicted meanwhile end."""
    _change(nodes, change, _recover_node)


@click.command()
@click.argument(
    "words",
    nargs=-1,
    metavar="[nodes] NODE... KEY=VALUE:EFFECT",
    shell_complete=completion.nodes,
    help="Nodes, and taints to set or remove.",
)
@options.selector
@options.flag("--all", "everything", help="Select all nodes.")
@options.flag("--overwrite", help="Change a taint that already has another value.")
@changing
def taint(words: tuple[str, ...], selector: str, everything: bool, overwrite: bool, change: LabChange) -> None:
    """Set or remove taints of nodes: KEY=VALUE:EFFECT or KEY:EFFECT sets a taint, KEY:EFFECT- or KEY- removes it."""
    names = [word for word in words if ":" not in word and "=" not in word and not word.endswith("-")]
    changes = [_read_taint(word) for word in words if word not in names]
    if names and names[0].lower() in ("node", "nodes", "no"):
        names = names[1:]
    if not changes:
        raise InputError(
            f"there is no taint to set; expected KEY=VALUE:EFFECT, with an effect of {', '.join(EFFECTS)}; a dash at its end removes it"
        )

    def taint_node(lab: Lab, node: Object) -> str:
        before = list((node.get("spec") or {}).get("taints") or ())
        after = _changed_taints(name_of(node), before, changes, overwrite)
        if after == before:
            return "not changed"
        lab.patch("Node", name_of(node), {"spec": {"taints": after or None}})
        return "tainted" if any(not each.remove for each in changes) else "untainted"

    _change(NodeTargets(names, selector, everything), change, taint_node)


def _change(
    nodes: NodeTargets,
    change: LabChange,
    change_node: NodeChange,
    check: Callable[[Lab, Sequence[Object]], None] = lambda lab, nodes: None,
    notices: Callable[[], Sequence[Notice]] = tuple,
) -> None:
    def change_all(lab: Lab) -> list[ObjectOutcome]:
        keys, selected = nodes.find(lab)
        check(lab, selected)
        return [(key, change_node(lab, node)) for key, node in zip(keys, selected, strict=True)]

    change.make(change_all, notices=notices)


def _set_schedulable(lab: Lab, node: Object, schedulable: bool) -> str:
    outcome = "uncordoned" if schedulable else "cordoned"
    if bool((node.get("spec") or {}).get("unschedulable")) is not schedulable:
        return f"already {outcome}"
    lab.patch("Node", name_of(node), {"spec": {"unschedulable": None if schedulable else True}})
    return outcome


def _fail_node(lab: Lab, node: Object, ready: FailedReadyStatus) -> str:
    if _ready(node) == ready:
        return "failed already"
    lab.fail_node(name_of(node), ready)
    return "failed"


def _recover_node(lab: Lab, node: Object) -> str:
    if _ready(node) == "True":
        return "is ready already"
    lab.recover_node(name_of(node))
    return "recovered"


def _ready(node: Object) -> str:
    condition = condition_of(node, "Ready")
    return "True" if condition is None else str(condition["status"])


class TaintChange(NamedTuple):
    """A taint to set, or with ``remove`` to remove; then an empty ``effect`` means any effect."""

    key: str
    value: str
    effect: str
    remove: bool


def _read_taint(word: str) -> TaintChange:
    remove = word.endswith("-")
    pair, _, effect = word.removesuffix("-").partition(":")
    key, equals, value = pair.partition("=")
    wrong_effect = effect not in EFFECTS and not (remove and not effect)
    if not key or wrong_effect or (remove and equals):
        raise InputError(
            f"{word!r}: expected KEY=VALUE:EFFECT, KEY:EFFECT, KEY:EFFECT- or KEY-, with an effect of {', '.join(EFFECTS)}"
        )
    return TaintChange(key, value, effect, remove)


def _changed_taints(node: str, before: list[Object], changes: Sequence[TaintChange], overwrite: bool) -> list[Object]:
    after = list(before)
    for change in changes:
        same = [taint for taint in after if taint["key"] == change.key and change.effect in ("", taint.get("effect"))]
        if change.remove:
            if not same:
                raise InputError(f"node/{node} has no taint {change.key}{':' if change.effect else ''}{change.effect}")
            after = [taint for taint in after if taint not in same]
            continue
        new = {"key": change.key, **({"value": change.value} if change.value else {}), "effect": change.effect}
        if same == [new]:
            continue
        if same and not overwrite:
            raise InputError(
                f"node/{node} has the taint {change.key}={same[0].get('value', '')}:{change.effect} already; --overwrite changes it"
            )
        after = [taint for taint in after if taint not in same] + [new]
    return after
