"""KWOK stages (kwok.x-k8s.io/v1alpha1, KWOK v0.7.0), which give the fake nodes and pods of a real cluster the life that
they have in the embedded cluster (``kailab.cluster.pod_lifecycle``).

Differences, because a stage sees only its own object:

* Stages don't know the node: pods on a node that is not Ready still become ready, end and leave. A pod that the node lifecycle controller has
  marked as not ready stays so after its node is back.
* The events of a saved or lost checkpoint come from ``kwok_controller``, not ``kubelet``.
* The back-off of a crashing container doubles up to 5 min and stays there: as in the embedded cluster, and unlike with a kubelet, a long good run
  does not reset it to 10 s.
* On kind and on a kubeconfig's cluster, a KWOK that was killed acts on its nodes again only when its old leases have expired (40 s).
* A write that conflicts with another one is repeated when KWOK sees that one, so everything happens at its time or a little later. The deletion of a
  pod can't be tied to its uid.

A stage has a selector and a delay, written in jq, and a patch of the status, written as a Go template. The numbers and names are those of
``pod_lifecycle``.

* At most one stage matches an object at any time: KWOK chooses at random among several.
* Delays count from times recorded in the pod, never from now, so that a KWOK that was away catches up.
* Each patch names the resourceVersion it was made for, so that it does not overwrite a newer state. A strategic merge patch merges lists of
  conditions by type and replaces lists of containers whole.

A node becomes ready with an address, and has a heartbeat now and then. Its capacity is the one it was created with. A node that somebody set
to not Ready stays so; one that the node lifecycle controller set to Unknown (because KWOK was away) becomes ready again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import yaml

from kailab.cluster import pod_lifecycle
from kailab.cluster.pod_lifecycle import PodEvent
from kailab.cluster.protocol import Object
from kailab.model import labels
from kailab.model.objects import ENDED_PHASES

# --- the form of a Stage object (source: kwok.x-k8s.io/v1alpha1) ------------------------------------------------------

API_VERSION = "kwok.x-k8s.io/v1alpha1"


class StageRule(NamedTuple):
    """A condition on the object: values of a jq expression, and an operator (In, NotIn, Exists, DoesNotExist)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


def absent(key: str) -> StageRule:
    return StageRule(key, "DoesNotExist")


def present(key: str) -> StageRule:
    return StageRule(key, "Exists")


def among(key: str, *values: str) -> StageRule:
    return StageRule(key, "In", values)


def outside(key: str, *values: str) -> StageRule:
    return StageRule(key, "NotIn", values)


def stage(
    name: str,
    kind: str,
    rules: list[StageRule],
    *,
    due: str = "",
    default_delay: float = 0.0,
    patch: str = "",
    subresource: str = "status",
    delete: bool = False,
    event: PodEvent | None = None,
    annotations: dict[str, str] | None = None,
) -> Object:
    """A Stage object. ``due``: a jq expression for the time left, as a Go duration; ``default_delay`` (seconds) if it
    gives none. ``patch``: a Go template of a strategic merge patch, for this subresource (empty: for the object without
    its status)."""
    following: dict[str, Any] = {}
    if event is not None:
        following["event"] = event._asdict()
    if delete:
        following["delete"] = True
    if patch:
        following["patches"] = [{**({"subresource": subresource} if subresource else {}), "template": patch}]
    selector: dict[str, Any] = {"matchExpressions": [{"jq": _expression(rule)} for rule in rules]}
    if annotations:
        selector["matchAnnotations"] = annotations
    spec: dict[str, Any] = {"resourceRef": {"apiGroup": "v1", "kind": kind}, "selector": selector}
    if due or default_delay:
        spec["delay"] = {"durationMilliseconds": round(default_delay * 1000)}
    if due:
        spec["delay"]["durationFrom"] = {"jq": {"expression": due}}
    spec["next"] = following
    return {"apiVersion": API_VERSION, "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _expression(rule: StageRule) -> dict[str, Any]:
    values = {"values": list(rule.values)} if rule.values else {}
    return {"key": rule.key, "operator": rule.operator, **values}


# --- nodes ------------------------------------------------------------------------------------------------------------

HEARTBEAT_SECONDS = 3600.0
"""A kubelet reports an unchanged status every 300 s. Here KWOK reports for all nodes and is restarted when it dies, so
a report says little about a node; those of 5,000 nodes at once would take some 50 s of processor time."""

_FAKE = {labels.FAKE_NODE_TAINT: "fake"}
_NODE_READY = '.status.conditions[]? | select(.type == "Ready") | .status'
# Of the Ready condition, which the node lifecycle controller looks at.
_LAST_BEAT = '[.status.conditions[]? | select(.type == "Ready") | .lastHeartbeatTime][0]'
_DUE = (
    f"{_LAST_BEAT} | if . == null then empty else (fromdate + {HEARTBEAT_SECONDS:g} - now) * 1000 | ceil | "
    'tostring + "ms" end'
)
_CONDITIONS = (
    ("Ready", "True", "KubeletReady", "fake node"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", ""),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", ""),
    ("PIDPressure", "False", "KubeletHasSufficientPID", ""),
)

# Each node has an address of its own, derived from its uid.
_ADDRESSES = """\
  {{ if not .status.addresses }}
  {{ $number := adler32sum .metadata.uid | atoi }}
  addresses:
  - type: InternalIP
    address: 172.16.{{ mod (div $number 256) 256 }}.{{ mod $number 256 }}
  - type: Hostname
    address: {{ .metadata.name | Quote }}
  {{ end }}
"""
_NODE_HEAD = "metadata:\n  resourceVersion: {{ .metadata.resourceVersion | Quote }}\nstatus:\n"
_BEAT = """\
{{ $now := Now }}
status:
  conditions:
  {{ range .status.conditions }}
  - type: {{ .type | Quote }}
    lastHeartbeatTime: {{ $now | Quote }}
  {{ end }}
"""


def node_stages() -> list[Object]:
    """In the order of a node's life."""
    ready = "".join(
        f"  - type: {type}\n"
        f'    status: "{status}"\n'
        f"    reason: {reason}\n"
        f'    message: "{message}"\n'
        "    lastHeartbeatTime: {{ $now | Quote }}\n"
        "    lastTransitionTime: {{ $now | Quote }}\n"
        for type, status, reason, message in _CONDITIONS
    )
    is_ready = among(_NODE_READY, "True")
    has_address = present(".status.addresses")
    # Without a Ready condition, or with one that is Unknown.
    first = [outside(_NODE_READY, "True", "False")]
    return [
        stage(
            "node-initialized",
            "Node",
            first,
            patch=f"{{{{ $now := Now }}}}\n{_NODE_HEAD}  conditions:\n{ready}{_ADDRESSES}",
            annotations=_FAKE,
        ),
        stage(
            "node-addressed",
            "Node",
            [is_ready, absent(".status.addresses")],
            patch="status:\n" + _ADDRESSES,
            annotations=_FAKE,
        ),
        stage(
            "node-heartbeat",
            "Node",
            [is_ready, has_address],
            due=_DUE,
            default_delay=HEARTBEAT_SECONDS,
            patch=_BEAT,
            annotations=_FAKE,
        ),
    ]


# --- pods -------------------------------------------------------------------------------------------------------------


def _note(name: str) -> str:
    return f'(.metadata.annotations // {{}})["{name}"]'


# A number of seconds; null for other text, as in pod_lifecycle.seconds_of.
_NUMBER = (
    "def number: if . == null then null else (try tonumber catch null) | "
    f"if . != null and . >= 0 then [., {pod_lifecycle.LONGEST_SECONDS:.0f}] | min else null end end; "
)
# Rounded up, so that KWOK does not act too early.
_LEFT = 'def left: (. - now) * 1000 | ceil | tostring + "ms"; '
_ENDING = (
    _NUMBER
    + f"def runs: {_note(labels.RUN_SECONDS)} | number; "
    + f'def fails: {_note(labels.FAIL)} | if . == null then null else split(":")[0] | number end; '
)
_LEAVING = (
    _NUMBER
    + "def grace: .metadata.deletionGracePeriodSeconds // 0; "
    + 'def hooks: if .status.phase == "Running" then [.spec.containers[]? | .lifecycle.preStop | select(. != null and . != {})] '
    + "else [] end; "
    # How long one hook takes; null if it does not say, as in pod_lifecycle.pre_stop_seconds.
    + "def slept: if .sleep != null then .sleep.seconds | number else "
    + f'((.exec.command // []) | map(tostring) | join(" ") | [capture("{pod_lifecycle.PLAIN_SLEEP}") | .seconds][0] | number) end; '
    + f'def saving: if .status.phase == "Running" and {_note(labels.CHECKPOINT_REQUESTED)} != null then '
    + f"({_note(labels.CHECKPOINT_SECONDS)} | number) as $takes | "
    + f"if {_note(labels.CHECKPOINT_DONE)} != null and ($takes != null or (hooks | length) > 0) then 0 else $takes end "
    + "else null end; "
    + f"def stopping: ({_note(pod_lifecycle.TERMINATION)} | number) as $asked | grace as $most | hooks as $hooks | "
    + "if $asked != null then $asked elif ($hooks | length) > 0 then "
    + f"([$hooks[] | slept | if . == null then $most else . end] | max) + {pod_lifecycle.TERMINATION_SECONDS:g} "
    + f"else {pod_lifecycle.TERMINATION_SECONDS:g} end; "
)

STARTED = ".status.containerStatuses[0].state.running.startedAt"
WAITING = ".status.containerStatuses[0].state.waiting.reason"

ENDING = (
    _ENDING
    + "runs as $r | fails as $f | "
    + 'if $f != null and ($r == null or $f <= $r) then "failed" elif $r != null then "completed" else empty end'
)
"""How a running pod will end: ``failed``, ``completed``, or not at all."""

LEAVING = (
    _LEAVING
    + 'saving as $s | if $s == null then "stopped" elif $s <= grace then "checkpointed" else "checkpoint-lost" end'
)
"""How a deleted pod leaves."""

TO_READY = (
    _NUMBER
    + _LEFT
    + '([.status.conditions[]? | select(.type == "PodScheduled" and .status == "True") | .lastTransitionTime][0] '
    + f"// .metadata.creationTimestamp | fromdate) + ({_note(labels.READY_SECONDS)} | number // "
    + f"{pod_lifecycle.READY_SECONDS:g}) | left"
)
TO_ENDING = (
    _ENDING
    + _LEFT
    + f"([runs, fails] | map(select(. != null)) | min) as $takes | ({STARTED} | fromdate) + $takes | left"
)
TO_RESTART = (
    _LEFT
    + ".status.containerStatuses[0] | (.lastState.terminated.finishedAt | fromdate) + "
    + f"([{pod_lifecycle.BACKOFF_FIRST:g} * pow(2; [.restartCount - 1, 16] | min), {pod_lifecycle.BACKOFF_LAST:g}] | min) | left"
)
TO_LEAVING = (
    _LEAVING
    + _LEFT
    + "saving as $s | grace as $g | stopping as $t | "
    + "(.metadata.deletionTimestamp | fromdate) - $g + ([$s // $t, $g] | min) | left"
)


# One time for all fields of a patch.
_HEAD = """\
{{ $now := Now }}
metadata:
  resourceVersion: {{ .metadata.resourceVersion | Quote }}
status:
"""


def _conditions(names: Iterable[str], status: str, reason: str = "") -> str:
    lines = ["  conditions:"]
    for name in names:
        lines += [
            f"  - type: {name}",
            f'    status: "{status}"',
            f'    reason: "{reason}"',
            '    message: ""',
            "    lastTransitionTime: {{ $now | Quote }}",
        ]
    return "\n".join(lines) + "\n"


def _container(ready: bool, restarts: str, state: str, last: str) -> str:
    """The status of each container, made from the previous one. ``state`` and ``last``: indented by four."""
    return f"""\
  containerStatuses:
  {{{{ range .status.containerStatuses }}}}
  - name: {{{{ .name | Quote }}}}
    image: {{{{ .image | Quote }}}}
    imageID: ""
    ready: {str(ready).lower()}
    started: {str(ready).lower()}
    restartCount: {restarts}
{state}{last}  {{{{ end }}}}
"""


_SAME = "{{ .restartCount }}"
# The list of containers is replaced whole, so unchanged fields must be repeated.
_LAST = """\
    {{ with .lastState }}
    lastState: {{ . | toJson }}
    {{ end }}
"""


def _terminated(field: str, code: str, reason: str) -> str:
    return f"""\
    {field}:
      terminated:
        exitCode: {code}
        reason: {reason}
        startedAt: {{{{ with .state.running }}}}{{{{ .startedAt | Quote }}}}{{{{ else }}}}{{{{ $now | Quote }}}}{{{{ end }}}}
        finishedAt: {{{{ $now | Quote }}}}
"""


# The reason and the exit code that the annotation asks for, as in pod_lifecycle.failure.
_FAILURE = (
    f'{{{{ $asked := splitn ":" 2 (index .metadata.annotations "{labels.FAIL}") }}}}\n'
    # splitn names the parts _0 and _1; _1 exists only after a colon.
    f'{{{{ $reason := or $asked._1 "{pod_lifecycle.ERROR}" }}}}\n'
    f'{{{{ $code := ternary {pod_lifecycle.CODE_OOM_KILLED} {pod_lifecycle.CODE_ERROR} (eq $reason "{pod_lifecycle.OOM_KILLED}") }}}}\n'
)

READY = (
    _HEAD.replace(
        "metadata:",
        "{{ $host := NodeIPWith .spec.nodeName | Quote }}\n"
        "{{ $address := PodIPWith .spec.nodeName (or .spec.hostNetwork false) .metadata.uid .metadata.name "
        ".metadata.namespace | Quote }}\nmetadata:",
        1,
    )
    + """\
  phase: Running
  startTime: {{ $now | Quote }}
  hostIP: {{ $host }}
  hostIPs:
  - ip: {{ $host }}
  podIP: {{ $address }}
  podIPs:
  - ip: {{ $address }}
"""
    + _conditions(pod_lifecycle.STARTED_CONDITIONS, "True")
    + f"""\
  {{{{ with .spec.initContainers }}}}
  initContainerStatuses:
  {{{{ range . }}}}
  - name: {{{{ .name | Quote }}}}
    image: {{{{ or .image "" | Quote }}}}
    imageID: ""
    ready: true
    restartCount: 0
    state:
      terminated:
        exitCode: {pod_lifecycle.CODE_COMPLETED}
        reason: {pod_lifecycle.COMPLETED}
        startedAt: {{{{ $now | Quote }}}}
        finishedAt: {{{{ $now | Quote }}}}
  {{{{ end }}}}
  {{{{ end }}}}
  containerStatuses:
  {{{{ range .spec.containers }}}}
  - name: {{{{ .name | Quote }}}}
    image: {{{{ or .image "" | Quote }}}}
    imageID: ""
    ready: true
    started: true
    restartCount: 0
    state:
      running:
        startedAt: {{{{ $now | Quote }}}}
  {{{{ end }}}}
"""
)


def _ended(phase: str, code: str, reason: str) -> str:
    return (
        _HEAD
        + f"  phase: {phase}\n"
        + _conditions(pod_lifecycle.READY_CONDITIONS, "False", pod_lifecycle.DONE_REASONS[phase])
        + _container(False, _SAME, _terminated("state", code, reason), _LAST)
    )


def _crashed(code: str, reason: str) -> str:
    waiting = f"    state:\n      waiting:\n        reason: {pod_lifecycle.BACKING_OFF}\n"
    return (
        _HEAD
        + _conditions(pod_lifecycle.READY_CONDITIONS, "False", pod_lifecycle.NOT_READY)
        + _container(False, "{{ add1 (toString .restartCount) }}", waiting, _terminated("lastState", code, reason))
    )


COMPLETED = _ended("Succeeded", str(pod_lifecycle.CODE_COMPLETED), pod_lifecycle.COMPLETED)
FAILED = _FAILURE + _ended("Failed", "{{ $code }}", "{{ $reason | Quote }}")
STOPPED = _ended("Failed", str(pod_lifecycle.CODE_STOPPED), pod_lifecycle.ERROR)
RAN_OUT = _crashed(str(pod_lifecycle.CODE_COMPLETED), pod_lifecycle.COMPLETED)
CRASHED = _FAILURE + _crashed("{{ $code }}", "{{ $reason | Quote }}")
RESTARTED = (
    _HEAD
    + _conditions(pod_lifecycle.READY_CONDITIONS, "True")
    + _container(True, _SAME, "    state:\n      running:\n        startedAt: {{ $now | Quote }}\n", _LAST)
)

RESERVED = f"""\
metadata:
  annotations:
    {labels.RESERVED_DEVICE}: {{{{ .metadata.uid | Quote }}}}
"""


_PHASE = ".status.phase"
_POLICY = ".spec.restartPolicy"
_DEVICE = f'.metadata.annotations["{labels.RESERVED_DEVICE}"]'
_STAYS = absent(".metadata.deletionTimestamp")
_LEAVES = present(".metadata.deletionTimestamp")
_FREE = absent(".metadata.finalizers")
_HELD = present(".metadata.finalizers")
# Without grace and finalizers the API server itself removes a pod: there is nothing left to do.
_GRACE_LEFT = among(".metadata.deletionGracePeriodSeconds // 0 | . > 0", "true")
_HOW = {"stopped": None, "checkpointed": pod_lifecycle.CHECKPOINTED, "checkpoint-lost": pod_lifecycle.CHECKPOINT_LOST}


def pod_stages() -> list[Object]:
    """In the order of a pod's life."""
    return [_ready(), _reserved(), *_endings(), _restart(), *_departures(), _released()]


def _ready() -> Object:
    rules = [_STAYS, among(_PHASE, "Pending")]
    return stage("pod-ready", "Pod", rules, due=TO_READY, patch=READY)


def _reserved() -> Object:
    """A pod that reserves a shared GPU for a real KAI reports which one it got: normally its program would ask the
    device plugin, and KAI's binder waits for the report. Such a pod has no run time, so no other stage matches."""
    rules = [
        _STAYS,
        among(".metadata.namespace", labels.RESERVATION_NAMESPACE),
        among(_PHASE, "Running"),
        absent(_DEVICE),
    ]
    # An annotation is not part of the status.
    return stage("gpu-reserved", "Pod", rules, patch=RESERVED, subresource="")


def _endings() -> list[Object]:
    # A crashed container waits and has no start time: only ``pod-restarted`` matches then.
    runs = [_STAYS, among(_PHASE, "Running"), present(STARTED)]
    ways: list[tuple[str, StageRule, str, str]] = [
        ("pod-completed", outside(_POLICY, "Always"), "completed", COMPLETED),
        ("pod-ran-out", among(_POLICY, "Always"), "completed", RAN_OUT),
        ("pod-failed", among(_POLICY, "Never"), "failed", FAILED),
        ("pod-crashed", outside(_POLICY, "Never"), "failed", CRASHED),
    ]
    return [
        stage(name, "Pod", [*runs, policy, among(ENDING, ending)], due=TO_ENDING, patch=patch)
        for name, policy, ending, patch in ways
    ]


def _restart() -> Object:
    rules = [_STAYS, among(_PHASE, "Running"), among(WAITING, pod_lifecycle.BACKING_OFF)]
    return stage("pod-restarted", "Pod", rules, due=TO_RESTART, patch=RESTARTED)


def _departures() -> list[Object]:
    stages = []
    for how, event in _HOW.items():
        leaves = among(LEAVING, how)
        stages.append(
            stage(
                f"pod-{how}",
                "Pod",
                [_LEAVES, _FREE, _GRACE_LEFT, leaves],
                due=TO_LEAVING,
                delete=True,
                event=event,
            )
        )
        # A finalizer holds it: its containers end, and it stays as a failed pod.
        held = [_LEAVES, _HELD, outside(_PHASE, *ENDED_PHASES), leaves]
        stages.append(stage(f"pod-{how}-held", "Pod", held, due=TO_LEAVING, patch=STOPPED, event=event))
    return stages


def _released() -> Object:
    """An ended pod waits only for its finalizers: no grace is left."""
    return stage("pod-released", "Pod", [_LEAVES, _HELD, among(_PHASE, *ENDED_PHASES), _GRACE_LEFT], delete=True)


# --- all stages, and the file that KWOK is started with ---------------------------------------------------------------


def stages() -> list[Object]:
    """Stage objects for nodes and pods."""
    return [*node_stages(), *pod_stages()]


def stages_yaml() -> str:
    """All stages as YAML documents, for ``kwok --config``."""

    class Dumper(yaml.SafeDumper):
        """Writes templates as block text."""

    def represent_text(dumper: Any, value: str) -> Any:
        # People read templates when a stage does not do what it should.
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, represent_text)
    return yaml.dump_all(stages(), Dumper=Dumper, sort_keys=False, width=120)
