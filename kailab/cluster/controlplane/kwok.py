"""KWOK as it runs beside any cluster of a lab: it plays the fake nodes and their pods, and leaves real ones alone."""

from __future__ import annotations

from pathlib import Path

from kailab.cluster.controlplane.ports import LOOPBACK
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
    """``stages``: YAML documents of kind Stage; none for KWOK's own."""
    write_text(folder / CONFIG, f"{_OPTIONS}---\n{stages}")


def arguments(kubeconfig: Path, port: int, *, leases: bool = True) -> list[str]:
    """For a process in the folder of its configuration. ``port``: of its health endpoint.

    ``leases``: renew node leases, and act only on nodes whose lease it holds. A node lifecycle controller of the cluster's own
    settings needs them. Without them nothing is lost at a start: KWOK v0.7.0 leaves a pod out for good that it meets before its own
    cache has the lease that it has just taken (pod_controller.go, readOnly), which happens on a busy machine; and one that follows
    another acts at once, rather than when the leases of the other have run out."""
    return [
        f"--kubeconfig={kubeconfig}",
        # Relative, as it takes a list of files, which a comma in the path would break.
        f"--config={CONFIG}",
        # Real nodes of the same cluster have a kubelet of their own.
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--node-lease-duration-seconds={_LEASE_SECONDS if leases else 0}",
        f"--server-address={LOOPBACK}:{port}",
        f"--node-ip={LOOPBACK}",
        "-v=WARN",
    ]
