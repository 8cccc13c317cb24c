"""The stages of a fake node: it becomes ready with an address, and has a heartbeat now and then.

Its capacity is the one it was created with. A node that somebody set to not Ready stays so; one that the node lifecycle
controller set to Unknown (because KWOK was away) becomes ready again.
"""

from __future__ import annotations

from kailab.cluster.protocol import Object
from kailab.cluster.stages.stage import absent, among, outside, present, stage
from kailab.model import labels

HEARTBEAT_SECONDS = 3600.0
"""A kubelet reports an unchanged status every 300 s. Here KWOK reports for all nodes and is restarted when it dies, so
a report says little about a node; those of 5,000 nodes at once would take some 50 s of processor time."""

_FAKE = {labels.FAKE_NODE_TAINT: "fake"}
_READY = '.status.conditions[]? | select(.type == "Ready") | .status'
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
_HEAD = "metadata:\n  resourceVersion: {{ .metadata.resourceVersion | Quote }}\nstatus:\n"
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
    """At most one stage matches a node, too."""
    ready = "".join(
        f"  - type: {type}\n"
        f'    status: "{status}"\n'
        f"    reason: {reason}\n"
        f'    message: "{message}"\n'
        "    lastHeartbeatTime: {{ $now | Quote }}\n"
        "    lastTransitionTime: {{ $now | Quote }}\n"
        for type, status, reason, message in _CONDITIONS
    )
    is_ready = among(_READY, "True")
    has_address = present(".status.addresses")
    # Without a Ready condition, or with one that is Unknown.
    first = [outside(_READY, "True", "False")]
    return [
        stage(
            "node-initialized",
            "Node",
            first,
            patch=f"{{{{ $now := Now }}}}\n{_HEAD}  conditions:\n{ready}{_ADDRESSES}",
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
