"""What hands used to kubectl type and kailab has not, and what to type instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

_CHANGE = "change the manifest and `kailab apply -f` it again (on a real API server kubectl works too)"
_NOTHING_RUNS = "nothing runs in the pods of fake nodes; `kailab get events` tells what happened to them"
_SHAPE = "`kailab get ... -o json` gives all of it, for jq and the like"

COMMANDS: Mapping[str, str] = {
    "describe": "`kailab explain pod NAME` says why it waits; `kailab get KIND NAME -o yaml` shows it, `kailab get events` its events",
    **dict.fromkeys(("logs", "exec", "attach", "port-forward", "cp", "debug"), _NOTHING_RUNS),
    **dict.fromkeys(("create", "replace"), "`kailab apply -f FILE` makes objects and changes them"),
    **dict.fromkeys(("scale", "patch", "edit", "label", "annotate", "set", "rollout", "autoscale", "expose"), _CHANGE),
    **dict.fromkeys(
        ("cordon", "uncordon", "drain", "taint"),
        "get the node with `kailab get node NAME -o yaml`, change it and apply it",
    ),
    "wait": "`kailab apply` and `kailab run` come back when nothing changes any more",
    "top": "`kailab status` sums up the lab, `kailab get nodes -o wide` shows what each node holds",
    "version": "`kailab --version`",
    "cluster-info": "`kailab status`",
    "api-resources": "`kailab get KIND` knows the kinds of Kubernetes and KAI, in full and in short",
    **dict.fromkeys(("config", "use-context"), "a lab is chosen with --state, a cluster with `kailab up --kubeconfig`"),
}
OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("-w", "--watch"), "time in the lab passes only on demand: `kailab run --for 10m`, then look again"
    ),
    **dict.fromkeys(("--sort-by", "--field-selector", "--show-labels", "--template", "-L", "--label-columns"), _SHAPE),
    **dict.fromkeys(("-k", "--kustomize"), "`kubectl kustomize DIR | kailab apply -f -`"),
    **dict.fromkeys(("-R", "--recursive"), "-f takes a folder, and may be repeated"),
    "--grace-period": "a pod's spec.terminationGracePeriodSeconds is heeded",
    "--image": "`kailab apply -f FILE` makes pods; `kailab run` lets time pass",
}
_UNKNOWN = re.compile(r"No such (command|option):? '?([\w-]+)'?")
_FORMAT = re.compile(r"'(jsonpath|custom-columns|go-template|jsonpath-as-json)[=-]")


def instead(complaint: str) -> str:
    """What to type instead, where the command line's complaint is about something that kubectl has; else nothing."""
    if _FORMAT.search(complaint):
        return _SHAPE
    found = _UNKNOWN.search(complaint)
    if found is None:
        return ""
    kind, name = found.groups()
    return (COMMANDS if kind == "command" else OPTIONS).get(name, "")
