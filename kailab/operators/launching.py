"""How each operator is started: its configuration or flags, its certificates, and the check that it works.

All listen on the loopback address, elect no leader, and send requests as fast as the API server allows, because no other users share
the cluster. Source: each operator's own flags and configuration API.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import yaml

from kailab.cluster.controlplane.ports import LOOPBACK, is_free
from kailab.errors import StateError
from kailab.model.labels import RESERVATION_NAMESPACE
from kailab.model.private_files import make_folder, open_private, write_text
from kailab.operators.publishing import TOPOLOGY
from kailab.undertest.programs import health_check, log_check

_QPS, _BURST = 1000, 2000
_OFF = "0"  # controller-runtime: no server at all


_SERVING = Path("k8s-webhook-server", "serving-certs")
"""The default folder of controller-runtime for certificates, below the folder for temporary files."""
_MOUNTED = Path("/tmp") / _SERVING


class OperatorSite(NamedTuple):
    """The namespace, folder, ports and log of an operator. ``webhook`` and ``health`` are ports."""

    namespace: str
    folder: Path
    webhook: int
    health: int
    log: Path

    @property
    def certificates(self) -> Path:
        """The folder with ``tls.crt`` and ``tls.key`` of its webhook server."""
        return self.folder / _SERVING


class LaunchPlan(NamedTuple):
    """How to start an operator. ``works``: checks once; returns None if it works, else what is missing. ``meanwhile``: a context that must
    hold until then."""

    arguments: Sequence[str]
    works: Callable[[], str | None]
    environment: Mapping[str, str] = {}
    meanwhile: Callable[[], AbstractContextManager[None]] = nullcontext


Launch: TypeAlias = Callable[[OperatorSite], LaunchPlan]


def jobset(site: OperatorSite) -> LaunchPlan:
    config = _configuration("config.jobset.x-k8s.io/v1alpha1", site, internalCertManagement={"enable": False})
    return LaunchPlan([_written(site, config)], _ready(site))


def leader_worker_set(site: OperatorSite) -> LaunchPlan:
    config = _configuration("config.lws.x-k8s.io/v1alpha1", site, internalCertManagement={"enable": False})
    return LaunchPlan([_written(site, config)], _ready(site))


def trainer(site: OperatorSite) -> LaunchPlan:
    config = _configuration("config.trainer.kubeflow.org/v1alpha1", site, certManagement={"enable": False})
    # Its configuration has no field for the folder of certificates.
    del config["webhook"]["certDir"]
    return LaunchPlan([_written(site, config)], _ready(site), {"TMPDIR": str(site.folder)})


def training_operator(site: OperatorSite) -> LaunchPlan:
    """The webhook server listens on all addresses, because no flag changes that."""
    arguments = [
        f"--metrics-bind-address={_OFF}",
        f"--health-probe-bind-address={LOOPBACK}:{site.health}",
        f"--webhook-server-port={site.webhook}",
        "--controller-threads=4",
        f"--kube-api-qps={_QPS}",
        f"--kube-api-burst={_BURST}",
    ]
    certificate = site.certificates / "tls.crt"
    return LaunchPlan(arguments, _ready(site), {"TMPDIR": str(site.folder)}, lambda: _mounted(certificate))


def mpi_operator(site: OperatorSite) -> LaunchPlan:
    """Its health endpoint answers before its workers run, on port 8080 of all addresses, which is fixed in its code. So its log is checked."""
    arguments = [
        f"--lock-namespace={site.namespace}",
        f"--kube-api-qps={_QPS}",
        f"--kube-api-burst={_BURST}",
        f"--controller-queue-rate-limit={_QPS}",
        f"--controller-queue-burst={_BURST}",
    ]
    return LaunchPlan(
        arguments, log_check(site.log, "Started workers", "it does not say that its workers have started")
    )


def kuberay(site: OperatorSite) -> LaunchPlan:
    """Its webhooks are off by default; they check only what its CRDs check as well."""
    health = f"{LOOPBACK}:{site.health}"
    arguments = [
        f"--metrics-addr={_OFF}",
        f"--health-probe-bind-address={health}",
        "--enable-leader-election=false",
        "--reconcile-concurrency=4",
        f"--qps={_QPS}",
        f"--burst={_BURST}",
    ]
    return LaunchPlan(arguments, health_check(f"http://{health}/readyz"))


def fake_gpu_operator(site: OperatorSite) -> LaunchPlan:
    """Both of its programs take the same settings. Nodes get their labels from the fleet, so it adds none."""
    environment = {
        "TOPOLOGY_CM_NAME": TOPOLOGY,
        "TOPOLOGY_CM_NAMESPACE": site.namespace,
        "FAKE_GPU_OPERATOR_NAMESPACE": site.namespace,
        "RESOURCE_RESERVATION_NAMESPACE": RESERVATION_NAMESPACE,
        "DISABLE_NODE_LABELING": "true",
    }
    return LaunchPlan([], log_check(site.log, "was Started", "it does not say that it has started"), environment)


@contextmanager
def _mounted(certificate: Path) -> Iterator[None]:
    """Hold a certificate in the folder that is fixed in the training operator's code. The operator only waits for a certificate in this
    folder. Its webhook server reads its own from another folder. A file lock makes operators start one after the other."""
    there = _MOUNTED / certificate.name
    with ExitStack() as ended:
        try:
            make_folder(_MOUNTED)
            alone = ended.enter_context(open_private(_MOUNTED / ".kailab.lock", "a"))
            fcntl.flock(alone, fcntl.LOCK_EX)
            if not there.exists():
                shutil.copyfile(certificate, there)
                ended.callback(there.unlink, missing_ok=True)
        except OSError as error:
            raise StateError(f"{_MOUNTED}: the training operator looks for a certificate there: {error}") from error
        yield


def _configuration(version: str, site: OperatorSite, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{site.health}"},
        "metrics": {"bindAddress": _OFF},
        "webhook": {"host": LOOPBACK, "port": site.webhook, "certDir": str(site.certificates)},
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": _QPS, "burst": _BURST},
        **more,
    }


def _written(site: OperatorSite, config: dict[str, Any]) -> str:
    file = site.folder / "configuration.yaml"
    write_text(file, yaml.safe_dump(config, sort_keys=False))
    return f"--config={file}"


def _ready(site: OperatorSite) -> Callable[[], str | None]:
    """A check that the health endpoint answers 200 and that the webhook port is in use. The port is checked because some health endpoints
    leave it out."""
    healthy = health_check(f"http://{LOOPBACK}:{site.health}/readyz")

    def ready() -> str | None:
        if is_free(site.webhook):
            return f"nobody listens for its webhooks on port {site.webhook}"
        return healthy()

    return ready
