"""KWOK stages of a pod, which give fake pods on a real API server the life that the embedded kubelet gives them.

A stage has a selector and a delay, written in jq, and a patch of the pod's status, written as a Go template. The
numbers and names are those of ``pod_lifecycle``.

* At most one stage matches a pod at any time: KWOK chooses at random among several.
* Delays count from times recorded in the pod, never from now, so that a KWOK that was away catches up.
* Each patch names the resourceVersion it was made for, so that it does not overwrite a newer state. A strategic merge patch merges lists of
  conditions by type and replaces lists of containers whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from kailab.cluster import pod_lifecycle
from kailab.cluster.protocol import Object
from kailab.cluster.stages.stage import StageRule, absent, among, outside, present, stage
from kailab.model import labels


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
_ENDED = ("Succeeded", "Failed")
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
        held = [_LEAVES, _HELD, outside(_PHASE, *_ENDED), leaves]
        stages.append(stage(f"pod-{how}-held", "Pod", held, due=TO_LEAVING, patch=STOPPED, event=event))
    return stages


def _released() -> Object:
    """An ended pod waits only for its finalizers: no grace is left."""
    return stage("pod-released", "Pod", [_LEAVES, _HELD, among(_PHASE, *_ENDED), _GRACE_LEFT], delete=True)
