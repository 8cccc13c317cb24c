"""What hands used to kubectl type and kailab has not, and what to type instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

_CHANGE = "`kailab patch` changes a field; or change the manifest and `kailab apply -f` it again (on a real API server kubectl works too)"
_NOTHING_RUNS = "nothing runs in the pods of fake nodes; `kailab get events` tells what happened to them"
_SHAPE = "`kailab get ... -o json` gives all of it, for jq and the like"

COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("logs", "exec", "attach", "port-forward", "cp", "debug"), _NOTHING_RUNS),
    **dict.fromkeys(("create", "replace"), "`kailab apply -f FILE` makes objects and changes them"),
    **dict.fromkeys(("edit", "set", "rollout", "autoscale", "expose"), _CHANGE),
    "top": "`kailab status` sums up the lab, `kailab get nodes -o wide` shows what each node holds",
    "version": "`kailab --version`",
    "cluster-info": "`kailab status`",
    "api-resources": "`kailab get KIND` knows the kinds of Kubernetes and KAI, in full and in short",
    **dict.fromkeys(("config", "use-context"), "a lab is chosen with --state, a cluster with `kailab up --kubeconfig`"),
}
OPTIONS: Mapping[str, str] = {
    "--template": _SHAPE,
    "--grace-period": "a pod's spec.terminationGracePeriodSeconds is heeded",
    "--image": "`kailab apply -f FILE` makes pods; `kailab run` lets time pass",
}
_UNKNOWN = re.compile(r"No such (command|option):? '?([\w-]+)'?")
_FORMAT = re.compile(
    r"'(jsonpath-file|jsonpath-as-json|custom-columns-file|go-template|go-template-file|templatefile)[=-]"
)


def instead(complaint: str) -> str:
    """What to type instead, where the command line's complaint is about something that kubectl has; else nothing."""
    if _FORMAT.search(complaint):
        return _SHAPE
    found = _UNKNOWN.search(complaint)
    if found is None:
        return ""
    kind, name = found.groups()
    return (COMMANDS if kind == "command" else OPTIONS).get(name, "")
