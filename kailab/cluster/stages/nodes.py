"""The stages of a fake node: ready once it is there, with an address, and a heartbeat now and then.

Its capacity is what it was created with. A node that somebody set to not Ready stays so; one that the node lifecycle
controller gave up on (Unknown, because KWOK was away) comes back.
"""

from __future__ import annotations

from kailab.cluster.protocol import Object
from kailab.cluster.stages.stage import absent, among, outside, present, stage
from kailab.model import labels

HEARTBEAT_SECONDS = 3600.0
"""A kubelet reports a status that has not changed every 300 s. Here KWOK speaks for all nodes and is started again when it dies, so that a report of a
node says little: those of 5,000 nodes, all at once, would take some 50 s of processor time each time."""

_FAKE = {labels.FAKE_NODE_TAINT: "fake"}
_READY = '.status.conditions[]? | select(.type == "Ready") | .status'
# Of the Ready condition alone, as the node lifecycle controller looks at it.
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

# An address of its own for each node, made from its uid.
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
    """Of a node, too, one matches at most."""
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
