"""What stages write into a pod's status: Go templates of strategic merge patches.

Each names the resourceVersion that it was made for: what changed in the meantime is not written over. Lists of
conditions are merged by type; those of containers are replaced whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from kailab.cluster import lifecycle
from kailab.model import labels

# One time for all that a patch says.
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
    """The status of each container, from the one before. ``state`` and ``last``: indented by four."""
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
# Containers are written as a whole list, so what stays has to be repeated.
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


# The reason and the exit code that the annotation asks for, as lifecycle.failure has them.
_FAILURE = (
    f'{{{{ $asked := splitn ":" 2 (index .metadata.annotations "{labels.FAIL}") }}}}\n'
    # splitn names the parts _0 and _1; the second is there only behind a colon.
    f'{{{{ $reason := or $asked._1 "{lifecycle.ERROR}" }}}}\n'
    f'{{{{ $code := ternary {lifecycle.CODE_OOM_KILLED} {lifecycle.CODE_ERROR} (eq $reason "{lifecycle.OOM_KILLED}") }}}}\n'
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
    + _conditions(lifecycle.STARTED_CONDITIONS, "True")
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
        exitCode: {lifecycle.CODE_COMPLETED}
        reason: {lifecycle.COMPLETED}
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
        + _conditions(lifecycle.READY_CONDITIONS, "False", lifecycle.DONE_REASONS[phase])
        + _container(False, _SAME, _terminated("state", code, reason), _LAST)
    )


def _crashed(code: str, reason: str) -> str:
    waiting = f"    state:\n      waiting:\n        reason: {lifecycle.BACKING_OFF}\n"
    return (
        _HEAD
        + _conditions(lifecycle.READY_CONDITIONS, "False", lifecycle.NOT_READY)
        + _container(False, "{{ add1 (toString .restartCount) }}", waiting, _terminated("lastState", code, reason))
    )


COMPLETED = _ended("Succeeded", str(lifecycle.CODE_COMPLETED), lifecycle.COMPLETED)
FAILED = _FAILURE + _ended("Failed", "{{ $code }}", "{{ $reason | Quote }}")
STOPPED = _ended("Failed", str(lifecycle.CODE_STOPPED), lifecycle.ERROR)
RAN_OUT = _crashed(str(lifecycle.CODE_COMPLETED), lifecycle.COMPLETED)
CRASHED = _FAILURE + _crashed("{{ $code }}", "{{ $reason | Quote }}")
RESTARTED = (
    _HEAD
    + _conditions(lifecycle.READY_CONDITIONS, "True")
    + _container(True, _SAME, "    state:\n      running:\n        startedAt: {{ $now | Quote }}\n", _LAST)
)

RESERVED = f"""\
metadata:
  annotations:
    {labels.RESERVED_DEVICE}: {{{{ .metadata.uid | Quote }}}}
"""
