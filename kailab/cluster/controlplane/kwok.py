"""KWOK as it runs beside any cluster of a lab: it plays the fake nodes and their pods, and leaves real ones alone."""

from __future__ import annotations

from pathlib import Path

from kailab.cluster.controlplane.ports import LOOPBACK

CONFIG = "kwok.yaml"

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
    (folder / CONFIG).write_text(f"{_OPTIONS}---\n{stages}", encoding="utf-8")


def arguments(kubeconfig: Path, port: int) -> list[str]:
    """For a process in the folder of its configuration. ``port``: of its health endpoint."""
    return [
        f"--kubeconfig={kubeconfig}",
        # Relative, as it takes a list of files, which a comma in the path would break.
        f"--config={CONFIG}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        f"--server-address={LOOPBACK}:{port}",
        f"--node-ip={LOOPBACK}",
        "-v=WARN",
    ]
