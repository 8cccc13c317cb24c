"""What hands used to kubectl type and kailab has not, and what to type instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

_CHANGE = "`kailab patch` changes a field; or change the manifest and `kailab apply -f` it again (on a real API server kubectl works too)"
_NOTHING_RUNS = "nothing runs in the pods of fake nodes; `kailab get events` tells what happened to them"
_APPLY = "`kailab apply` checks all manifests first, then applies them one by one as kubectl does"
_SHAPE = "`kailab get ... -o json` gives all of it, for jq and the like"

COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("logs", "exec", "attach", "port-forward", "cp", "debug"), _NOTHING_RUNS),
    **dict.fromkeys(("create", "replace"), "`kailab apply -f FILE` makes objects and changes them"),
    **dict.fromkeys(("edit", "set", "rollout", "autoscale", "expose"), _CHANGE),
    "top": "`kailab status` sums up the lab, `kailab get nodes -o wide` shows what each node holds",
    "version": "`kailab --version`",
    "events": "`kailab get events`",
    "diff": "`kailab apply --dry-run -f FILE` says what would be changed",
    "api-versions": "`kailab get KIND` knows the kinds of Kubernetes and KAI, in full and in short",
    "cluster-info": "`kailab status`",
    "api-resources": "`kailab get KIND` knows the kinds of Kubernetes and KAI, in full and in short",
    **dict.fromkeys(("config", "use-context"), "a lab is chosen with --state, a cluster with `kailab up --kubeconfig`"),
}
OPTIONS: Mapping[str, str] = {
    "--template": _SHAPE,
    **dict.fromkeys(
        ("--grace-period", "--now", "--force"),
        "a pod's spec.terminationGracePeriodSeconds is heeded, and its time passes at once (a lab's time is virtual)",
    ),
    **dict.fromkeys(
        ("--wait", "--timeout"), "the command returns when the lab has settled; --no-settle returns at once"
    ),
    "--cascade": "what an object owns goes with it",
    "--field-selector": "`kailab get ... --field-selector ... -o name` names the objects",
    **dict.fromkeys(("-f", "--filename"), "name the objects: KIND NAME, or KIND/NAME"),
    **dict.fromkeys(
        ("--server-side", "--validate", "--prune", "--record", "--save-config", "--force-conflicts"), _APPLY
    ),
    "--dry-run": "`kailab apply --dry-run` and `kailab whatif` change nothing",
    **dict.fromkeys(("--context", "--kubeconfig", "--cluster"), "a lab is chosen with --state"),
    **dict.fromkeys(("--disable-eviction", "--pod-selector"), "`kailab delete pods -l LABEL` deletes some"),
    "--image": "`kailab apply -f FILE` makes pods; `kailab run` lets time pass",
}
OF_KUBECTL = frozenset(
    [
        "get",
        "describe",
        "apply",
        "delete",
        "scale",
        "patch",
        "label",
        "annotate",
        "cordon",
        "uncordon",
        "drain",
        "taint",
        "wait",
        "run",
    ]
)
"""The commands whose options are looked for in what kubectl has."""
_UNKNOWN = re.compile(r"No such (command|option):? '?([\w-]+)'?")
_FORMAT = re.compile(
    r"'(jsonpath-file|jsonpath-as-json|custom-columns-file|go-template|go-template-file|templatefile)[=-]"
)


def instead(complaint: str, command: str) -> str:
    """What to type instead, where the complaint about the line of a ``command`` is about something that kubectl has; else nothing."""
    if _FORMAT.search(complaint):
        return _SHAPE
    found = _UNKNOWN.search(complaint)
    if found is None:
        return ""
    kind, name = found.groups()
    if kind == "command":
        return COMMANDS.get(name, "")
    return OPTIONS.get(name, "") if command in OF_KUBECTL else ""
