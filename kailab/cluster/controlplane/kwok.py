"""KWOK as a local process, which plays the fake nodes and their pods: its arguments, its stages, its health."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from pathlib import Path

from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.controlplane.supervision import ProcessRecord, ProcessStatus, Supervision, new_process_record
from kailab.cluster.polling import wait_until
from kailab.cluster.stages import stages_yaml
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


def write_config(folder: Path, stages: Path | None) -> None:
    """``stages``: a file of Stage objects, None: kailab's own."""
    text = stages_yaml() if stages is None else stages.read_text(encoding="utf-8")
    write_text(folder / CONFIG, f"{_OPTIONS}---\n{text}")


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
_ANSWER_SECONDS = 10.0


def start_kwok(supervision: Supervision, program: Path, kubeconfig: Path, stages: Path | None = None) -> ProcessStatus:
    """Start it in a folder, and return when it is healthy. ``stages``: a file of Stage objects, None: kailab's own. Raises ConnectError."""
    write_config(supervision.folder, stages)
    (port,) = free_ports(1)
    record = new_process_record(NAME, [program, *kwok_arguments(kubeconfig, port)], port=port)
    supervision.start(record)
    return await_healthy(supervision, record)


def await_healthy(supervision: Supervision, record: ProcessRecord) -> ProcessStatus:
    """Raises ConnectError if it ends, or is not healthy in time."""
    url = f"http://{LOOPBACK}:{record.port}/healthz"

    def done() -> bool:
        return not supervision.status(record).running or ask_local(url)[1] is None

    healthy = wait_until(done, HEALTHY_SECONDS)
    status = supervision.status(record)
    if not status.running:
        raise ConnectError(f"KWOK does not run: {status.why}")
    if not healthy:
        raise ConnectError(f"KWOK is not healthy after {HEALTHY_SECONDS:.0f} s")
    return status


def ask_local(url: str, context: ssl.SSLContext | None = None) -> tuple[str, str | None]:
    """The answer of a local URL, and the error if there is none. ``context``: for https."""
    # No proxy, whatever the environment says: the addresses are local.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=_ANSWER_SECONDS) as answer:
            return answer.read().decode("utf-8", "replace"), None
    except urllib.error.HTTPError as error:
        reason = error.read().decode("utf-8", "replace").strip().replace("\n", "; ")[:300]
        return "", f"{url} says {error.code} ({reason})"
    except (OSError, ValueError) as error:
        return "", f"{url} does not answer ({getattr(error, 'reason', None) or error})"
