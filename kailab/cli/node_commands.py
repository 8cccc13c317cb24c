"""``cordon``, ``uncordon``, ``drain``, ``taint``, ``fail``, ``recover``: nodes taken out of service and brought back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from kailab.cli import completion, labfile, options, terminal
from kailab.model.objects import Object

if TYPE_CHECKING:
    from kailab.lab import Lab
    from kailab.lab.node_changes import FailedReadyStatus

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NodeChange = Callable[["Lab", Object], str]
"""(lab, node) -> what was done to it, as kubectl says it."""

nodes = click.argument("names", nargs=-1, metavar="[NODE]...", shell_complete=completion.nodes, help="Nodes, by name.")


@click.command()
@nodes
@options.selector
@options.settle
@options.state
def cordon(names: tuple[str, ...], selector: str, settle: bool, state: Path) -> None:
    """Let no more pods onto nodes; those that are there stay."""
    _change(names, selector, settle, state, lambda lab, node: _schedulable(lab, node, False))


@click.command()
@nodes
@options.selector
@options.settle
@options.state
def uncordon(names: tuple[str, ...], selector: str, settle: bool, state: Path) -> None:
    """Let pods onto nodes again."""
    _change(names, selector, settle, state, lambda lab, node: _schedulable(lab, node, True))


@click.command()
@nodes
@options.selector
@click.option("--ignore-daemonsets", is_flag=True, help="Leave pods of DaemonSets where they are.")
@click.option("--force", is_flag=True, help="Also delete pods that no controller makes anew.")
@click.option("--delete-emptydir-data", is_flag=True, help="Also delete pods that keep data in an emptyDir.")
@options.settle
@options.state
def drain(
    names: tuple[str, ...],
    selector: str,
    ignore_daemonsets: bool,
    force: bool,
    delete_emptydir_data: bool,
    settle: bool,
    state: Path,
) -> None:
    """Cordon nodes and delete their pods, then run the lab until nothing changes. Disruption budgets that this goes past are told."""
    from kailab.errors import InputErrors
    from kailab.lab.disruption_budgets import violated_budgets
    from kailab.lab.node_changes import drain_node, drain_obstacles, pods_to_drain

    def one(lab: Lab, node: Object) -> str:
        for change in drain_node(lab, node["metadata"]["name"]):
            change.do(lab)
        return "drained"

    def check(lab: Lab, found: Sequence[Object]) -> None:
        stays = [
            error
            for node in found
            for error in drain_obstacles(
                lab,
                node["metadata"]["name"],
                daemons=not ignore_daemonsets,
                lone=not force,
                local=not delete_emptydir_data,
            )
        ]
        if stays:
            raise InputErrors.of(stays)
        for warning in violated_budgets(
            lab, {pod for node in found for pod in pods_to_drain(lab, node["metadata"]["name"])}
        ):
            terminal.warn(warning)

    _change(names, selector, settle, state, one, check)


@click.command()
@nodes
@options.selector
@click.option("--not-ready", is_flag=True, help="The node is heard of and says itself that it can run nothing.")
@options.settle
@options.state
def fail(names: tuple[str, ...], selector: str, not_ready: bool, settle: bool, state: Path) -> None:
    """Let nodes fail, as Kubernetes sees it when their kubelets are silent: Ready is Unknown, the node is tainted
    node.kubernetes.io/unreachable, and after the time that its pods put up with that (300 s) they are evicted: `kailab run --for 6m`."""
    _change(names, selector, settle, state, lambda lab, node: _failed(lab, node, "False" if not_ready else "Unknown"))


@click.command()
@nodes
@options.selector
@options.settle
@options.state
def recover(names: tuple[str, ...], selector: str, settle: bool, state: Path) -> None:
    """Let failed nodes be well again: their pods run on, those that were evicted meanwhile end."""
    _change(names, selector, settle, state, _recovered)


@click.command()
@click.argument(
    "words",
    nargs=-1,
    metavar="[nodes] NODE... KEY=VALUE:EFFECT",
    shell_complete=completion.nodes,
    help="Nodes, and taints to set or take away.",
)
@options.selector
@click.option("--all", "everything", is_flag=True, help="All nodes.")
@click.option("--overwrite", is_flag=True, help="Change a taint that has another value already.")
@options.settle
@options.state
def taint(words: tuple[str, ...], selector: str, everything: bool, overwrite: bool, settle: bool, state: Path) -> None:
    """Keep pods that do not tolerate it off nodes: KEY=VALUE:EFFECT or KEY:EFFECT sets a taint, KEY:EFFECT- or KEY- takes it away."""
    from kailab.errors import InputError

    names = [word for word in words if ":" not in word and "=" not in word and not word.endswith("-")]
    wishes = [_read_taint(word) for word in words if word not in names]
    if names and names[0].lower() in ("node", "nodes", "no"):
        names = names[1:]
    if not wishes:
        raise InputError(
            f"say which taint: KEY=VALUE:EFFECT, with an effect of {', '.join(EFFECTS)}; a dash after it takes it away"
        )

    def one(lab: Lab, node: Object) -> str:
        before = list((node.get("spec") or {}).get("taints") or ())
        after = _tainted(node["metadata"]["name"], before, wishes, overwrite)
        if after == before:
            return "not changed"
        lab.patch("Node", node["metadata"]["name"], {"spec": {"taints": after or None}})
        return "tainted" if any(not wish.away for wish in wishes) else "untainted"

    _change(names, selector, settle, state, one, everything=everything)


def _change(
    names: Sequence[str],
    selector: str,
    settle: bool,
    state: Path,
    change: NodeChange,
    check: Callable[[Lab, Sequence[Object]], None] | None = None,
    *,
    everything: bool = False,
) -> None:
    from kailab.cli.objects import settle_lab
    from kailab.cli.selection import fetch_objects, select_objects
    from kailab.lab.lab_changes import LabChanges

    bare = [name.partition("/")[2] if name.startswith(("node/", "nodes/")) else name for name in names]
    with labfile.change_lab(state) as lab:
        before = LabChanges(lab)
        found = fetch_objects(lab, select_objects(lab, ["nodes", *bare], "", selector, everything))
        if check is not None:
            check(lab, found)
        done = [(node["metadata"]["name"], change(lab, node)) for node in found]
        told = settle_lab(lab, before, settle) if done else ""
    for name, how in done:
        terminal.say(f"node/{name} {how}")
    terminal.notice(told or "No resources found")


def _schedulable(lab: Lab, node: Object, wanted: bool) -> str:
    done = "uncordoned" if wanted else "cordoned"
    if bool((node.get("spec") or {}).get("unschedulable")) is not wanted:
        return f"already {done}"
    lab.patch("Node", node["metadata"]["name"], {"spec": {"unschedulable": None if wanted else True}})
    return done


def _failed(lab: Lab, node: Object, ready: FailedReadyStatus) -> str:
    if _ready(node) == ready:
        return "failed already"
    lab.fail_node(node["metadata"]["name"], ready)
    return "failed"


def _recovered(lab: Lab, node: Object) -> str:
    if _ready(node) == "True":
        return "is ready already"
    lab.recover_node(node["metadata"]["name"])
    return "recovered"


def _ready(node: Object) -> str:
    from kailab.model.objects import condition_of

    found = condition_of(node, "Ready")
    return "True" if found is None else str(found["status"])


class TaintChange(NamedTuple):
    """A taint to set, or with ``away`` to take away (then an empty ``effect`` means whichever)."""

    key: str
    value: str
    effect: str
    away: bool


def _read_taint(word: str) -> TaintChange:
    from kailab.errors import InputError

    away = word.endswith("-")
    named, _, effect = word.removesuffix("-").partition(":")
    key, equals, value = named.partition("=")
    wrong = effect not in EFFECTS and not (away and not effect)
    if not key or wrong or (away and equals):
        raise InputError(
            f"{word!r}: expected KEY=VALUE:EFFECT, KEY:EFFECT, KEY:EFFECT- or KEY-, with an effect of {', '.join(EFFECTS)}"
        )
    return TaintChange(key, value, effect, away)


def _tainted(node: str, before: list[Object], wishes: Sequence[TaintChange], overwrite: bool) -> list[Object]:
    from kailab.errors import InputError

    after = list(before)
    for wish in wishes:
        same = [one for one in after if one["key"] == wish.key and wish.effect in ("", one.get("effect"))]
        if wish.away:
            if not same:
                raise InputError(f"node/{node} has no taint {wish.key}{':' if wish.effect else ''}{wish.effect}")
            after = [one for one in after if one not in same]
            continue
        wanted = {"key": wish.key, **({"value": wish.value} if wish.value else {}), "effect": wish.effect}
        if same == [wanted]:
            continue
        if same and not overwrite:
            raise InputError(
                f"node/{node} has the taint {wish.key}={same[0].get('value', '')}:{wish.effect} already; --overwrite changes it"
            )
        after = [one for one in after if one not in same] + [wanted]
    return after
