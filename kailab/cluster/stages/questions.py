"""What stages ask of a pod, in jq: how it will end and when each thing is due. Numbers and names are the lifecycle's.

Times count from what is on record in the pod, never from now: an answer is the same whenever it is asked for, and a KWOK
that was away goes on as if it had not been.
"""

from __future__ import annotations

from kailab.cluster import lifecycle
from kailab.model import labels


def _note(name: str) -> str:
    return f'(.metadata.annotations // {{}})["{name}"]'


# A number of seconds; nothing where the text is none, as lifecycle.seconds_of has it.
_NUMBER = (
    "def number: if . == null then null else (try tonumber catch null) | "
    f"if . != null and . >= 0 then [., {lifecycle.LONGEST_SECONDS:.0f}] | min else null end end; "
)
# Rounded up, so that KWOK does not act before the time.
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
    # How long one hook takes; null where it does not say so: see lifecycle.pre_stop_seconds.
    + "def slept: if .sleep != null then .sleep.seconds | number else "
    + f'((.exec.command // []) | map(tostring) | join(" ") | [capture("{lifecycle.PLAIN_SLEEP}") | .seconds][0] | number) end; '
    + f'def saving: if .status.phase == "Running" and {_note(labels.CHECKPOINT_REQUESTED)} != null then '
    + f"({_note(labels.CHECKPOINT_SECONDS)} | number) as $takes | "
    + f"if {_note(labels.CHECKPOINT_DONE)} != null and ($takes != null or (hooks | length) > 0) then 0 else $takes end "
    + "else null end; "
    + f"def stopping: ({_note(lifecycle.TERMINATION)} | number) as $asked | grace as $most | hooks as $hooks | "
    + "if $asked != null then $asked elif ($hooks | length) > 0 then "
    + f"([$hooks[] | slept | if . == null then $most else . end] | max) + {lifecycle.TERMINATION_SECONDS:g} "
    + f"else {lifecycle.TERMINATION_SECONDS:g} end; "
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
    + f"{lifecycle.READY_SECONDS:g}) | left"
)
TO_ENDING = (
    _ENDING
    + _LEFT
    + f"([runs, fails] | map(select(. != null)) | min) as $takes | ({STARTED} | fromdate) + $takes | left"
)
TO_RESTART = (
    _LEFT
    + ".status.containerStatuses[0] | (.lastState.terminated.finishedAt | fromdate) + "
    + f"([{lifecycle.BACKOFF_FIRST:g} * pow(2; [.restartCount - 1, 16] | min), {lifecycle.BACKOFF_LAST:g}] | min) | left"
)
TO_LEAVING = (
    _LEAVING
    + _LEFT
    + "saving as $s | grace as $g | stopping as $t | "
    + "(.metadata.deletionTimestamp | fromdate) - $g + ([$s // $t, $g] | min) | left"
)
