"""KWOK as a local process, which plays the fake nodes and their pods: its arguments, its stages, its health."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from kailab.cluster.controlplane.ports import LOOPBACK
from kailab.cluster.polling import wait_until
from kailab.cluster.stages import write_stages
from kailab.errors import ConnectError
from kailab.model.private_files import write_text

CONFIG = "kwok.yaml"
_LEASE_SECONDS = 40

_OPTIONS = """\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 16
  nodeLeaseParallelism: 8
  podsOnNodeSyncParallelism: 4
"""


def write_config(folder: Path, stages: str) -> None:
    """``stages``: YAML documents of kind Stage; empty for KWOK's own."""
    write_text(folder / CONFIG, f"{_OPTIONS}---\n{stages}")


def kwok_arguments(kubeconfig: Path, port: int, *, leases: bool = True) -> list[str]:
    """Arguments for a process in the folder of its configuration. ``port``: of its health endpoint.

    ``leases``: renew node leases, and act only on nodes whose lease it holds. A node lifecycle controller with default
    settings needs them. Without leases nothing is lost at a start: KWOK v0.7.0 permanently leaves out a pod that it
    sees before its own cache has the lease that it has just taken (pod_controller.go, readOnly), which happens on a
    busy machine; and a KWOK that follows another acts at once, instead of when the other's leases have expired.
    """
    return [
        f"--kubeconfig={kubeconfig}",
        # Relative, because the option takes a list, which a comma in the path would break.
        f"--config={CONFIG}",
        # Real nodes of the same cluster have a kubelet of their own.
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--node-lease-duration-seconds={_LEASE_SECONDS if leases else 0}",
        f"--server-address={LOOPBACK}:{port}",
        f"--node-ip={LOOPBACK}",
        "-v=WARN",
    ]


NAME = "kwok"
HEALTHY_SECONDS = 300.0
_LOOK_SECONDS = 10.0


def prepare_kwok(folder: Path, stages: Path | None) -> None:
    """Write its configuration. ``stages``: a file of Stage objects, None: kailab's own."""
    own = folder / "stages.yaml"
    text = (stages or write_stages(own)).read_text(encoding="utf-8")
    own.unlink(missing_ok=True)
    write_config(folder, text)


def await_healthy(port: int, why_not: Callable[[], str]) -> None:
    """``why_not``: why it does not run, empty while it does. Raises ConnectError if it ends, or is not healthy in time."""
    ended: list[str] = []

    def done() -> bool:
        ended[:] = [why for why in (why_not(),) if why]
        return bool(ended) or _is_healthy(port)

    if not wait_until(done, HEALTHY_SECONDS):
        raise ConnectError(f"KWOK is not healthy after {HEALTHY_SECONDS:.0f} s")
    if ended:
        raise ConnectError(f"KWOK does not run: {ended[0]}")


def _is_healthy(port: int) -> bool:
    # No proxy, whatever the environment says: the address is local.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{LOOPBACK}:{port}/healthz", timeout=_LOOK_SECONDS) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False
