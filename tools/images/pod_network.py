"""The network of pods that really run, on real nodes, without a daemon: each node has a range derived from its address.

kind's own images have kindnetd for this, which is no separate Go module that could be built. At each start a node reads
its address, and adds routes to the ranges of the other nodes in its network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.images.debian import Root

UNIT = "pod-network.service"
_RANGE = "10.245"  # not kubeadm's range for pods, which is given to fake nodes, too
_PROGRAM = "kind/bin/pod-network"

_SERVICE = f"""\
[Unit]
Description=Network of the pods on this node
Before=containerd.service kubelet.service

[Service]
Type=oneshot
ExecStart=/{_PROGRAM}

[Install]
WantedBy=multi-user.target
"""

_SCRIPT = f"""\
#!/bin/sh
set -eu
address=$(ip -4 -oneline address show dev eth0 scope global | awk '{{sub("/.*", "", $4); print $4; exit}}')
beside=${{address%.*}}
own=${{address##*.}}
mkdir -p /etc/cni/net.d
cat >/etc/cni/net.d/10-pods.conflist <<END
{{
  "cniVersion": "0.3.1",
  "name": "pods",
  "plugins": [
    {{
      "type": "ptp",
      "mtu": $(cat /sys/class/net/eth0/mtu),
      "ipMasq": true,
      "ipam": {{
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "ranges": [[{{"subnet": "{_RANGE}.$own.0/24"}}]],
        "routes": [{{"dst": "0.0.0.0/0"}}]
      }}
    }},
    {{"type": "portmap", "capabilities": {{"portMappings": true}}}}
  ]
}}
END
for other in $(seq 2 254); do
  [ "$other" = "$own" ] || echo "route replace {_RANGE}.$other.0/24 via $beside.$other dev eth0"
done | ip -batch -
"""

# kind applies this file, which must not be empty.
_MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: pod-network, namespace: kube-system}
data: {about: each node has its range from /kind/bin/pod-network}
"""


def put(root: Root) -> None:
    root.write(_PROGRAM, _SCRIPT, 0o755)
    root.write(f"etc/systemd/system/{UNIT}", _SERVICE)
    root.write("kind/manifests/default-cni.yaml", _MANIFEST)
