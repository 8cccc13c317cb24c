"""Turns a Debian root into a node: kind's own files, from its Go module, and the configuration of systemd and
containerd.

Source: what kind's ``images/base`` and ``pkg/build/nodeimage`` put into the images that kind publishes.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path, PurePosixPath

from tools.images import pod_network
from tools.images.debian import Root

_FILES = PurePosixPath("images/base/files")
_ENABLED = ("containerd.service", "kubelet.service", "undo-mount-hacks.service", pod_network.UNIT)
# For machines, not containers: they would wait for devices, or write to what all containers of the machine share.
_MASKED = ("systemd-binfmt.service", "systemd-udevd.service", "systemd-logind.service", "console-getty.service")
_EMPTIED = (
    "lib/systemd/system/multi-user.target.wants",
    "lib/systemd/system/local-fs.target.wants",
    "lib/systemd/system/basic.target.wants",
)
_CONTAINERD = "etc/containerd/config.toml"
_SANDBOX = re.compile(r'^\s*sandbox_image\s*=\s*"([^"]+)"', re.MULTILINE)
_OOM = "restrict_oom_score_adj = false"
_KUBELET = "etc/default/kubelet"


def put_kinds_files(root: Root, archive: Path) -> None:
    """``archive``: of the pinned module. Go's cache has no file modes: files in a ``bin`` folder are programs."""
    with zipfile.ZipFile(archive) as files:
        for name in files.namelist():
            path = PurePosixPath(name).relative_to(_FILES)
            root.write(str(path), files.read(name).decode("utf-8"), 0o755 if path.parent.name == "bin" else 0o644)


def set_up(root: Root, kubernetes: str) -> str:
    """Configure the node. Returns the name of containerd's image for the sandbox of a pod."""
    sandbox = _set_up_containerd(root)
    _set_up_systemd(root)
    pod_network.put(root)
    kubelet = root.path / _KUBELET
    # A kubelet of 1.35 and later refuses cgroup v1, although it works.
    root.write(_KUBELET, f"{kubelet.read_text(encoding='utf-8').strip()} --fail-cgroupv1=false\n")
    root.write("kind/version", kubernetes)
    (root.path / "etc/kubernetes/manifests").mkdir(parents=True, exist_ok=True)
    return sandbox


def _set_up_containerd(root: Root) -> str:
    # kind's units expect the paths of kind's own build.
    for program in ("containerd", "ctr", "containerd-shim-runc-v2"):
        root.link(f"usr/local/bin/{program}", f"/usr/bin/{program}")
    root.link("opt/cni/bin", "/usr/lib/cni")
    config = root.path / _CONTAINERD
    text = config.read_text(encoding="utf-8")
    # On an engine without CAP_SYS_RESOURCE nobody may lower a process's score; elsewhere this changes nothing.
    config.write_text(text.replace(_OOM, _OOM.replace("false", "true")), encoding="utf-8")
    match = _SANDBOX.search(text)
    if match is None:
        raise ValueError(f"{_CONTAINERD} of kind's module names no sandbox_image")
    spec = json.loads(root.run("ctr", "oci", "spec"))
    # The limits of the building process are not the node's.
    spec["process"].pop("rlimits", None)
    hooks = spec.setdefault("hooks", {}).setdefault("createContainer", [])
    hooks.append({"path": "/kind/bin/mount-product-files.sh"})
    root.write("etc/containerd/cri-base.json", json.dumps(spec))
    return match[1]


def _set_up_systemd(root: Root) -> None:
    for folder in (
        *_EMPTIED,
        *(str(path.relative_to(root.path)) for path in root.path.glob("etc/systemd/system/*.wants")),
    ):
        for path in (root.path / folder).glob("*"):
            path.unlink()
    for unit in _ENABLED:
        root.link(f"etc/systemd/system/multi-user.target.wants/{unit}", f"/etc/systemd/system/{unit}")
    for unit in _MASKED:
        root.link(f"etc/systemd/system/{unit}", "/dev/null")
    root.link("etc/systemd/system/default.target", "/lib/systemd/system/multi-user.target")
    # The kernel's messages are the machine's.
    root.write("etc/systemd/journald.conf.d/node.conf", "[Journal]\nReadKMsg=no\nStorage=volatile\n")
