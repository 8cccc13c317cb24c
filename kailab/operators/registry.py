"""The registry of operators: the kinds that each makes pods for, and how it is connected to an API server. Importing it is cheap.

The name of an operator is that of the add-on (``kailab.components.ADDONS``) with its programs and manifests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations
from typing import TYPE_CHECKING

from kailab.cluster.backends import BACKENDS
from kailab.components.pins import ADDONS, FAKE_GPU_OPERATOR, MANIFESTS
from kailab.errors import InputError

if TYPE_CHECKING:
    from kailab.operators.launching import Launch


@dataclass(frozen=True, kw_only=True)
class Operator:
    """``title``: its name in sentences. ``kinds``: keys of kailab's kinds that it makes pods for. ``definitions``: pattern of the manifest
    files that define them; ``webhooks``: the folder with its webhooks, empty for none. ``namespace`` and ``service``: those that it runs
    in, according to its manifests. ``launch``: the function of ``kailab.operators.launching`` that plans its start. ``needs``: operators
    that must run with it. ``secret`` and ``authority``: where it expects its certificates and who must have signed them, if it manages
    them itself. ``port``: a port on all addresses that is fixed in its code, so that only one can run on a machine. ``publishes_gpus``: it
    makes no pods, but decides which GPUs the nodes of a fleet have, so it starts with the fleet of a lab."""

    title: str
    kinds: tuple[str, ...]
    definitions: str
    launch: str
    webhooks: str = ""
    namespace: str
    service: str = ""
    secret: str = ""
    authority: str = "ca"
    needs: tuple[str, ...] = ()
    port: int = 0
    publishes_gpus: bool = False

    def load(self) -> Launch:
        result: Launch = getattr(import_module("kailab.operators.launching"), self.launch)
        return result


OPERATORS: Mapping[str, Operator] = {
    "jobset": Operator(
        title="JobSet",
        kinds=("JobSet",),
        definitions="config/components/crd/bases/*.yaml",
        webhooks="config/components/webhook",
        launch="jobset",
        namespace="jobset-system",
        service="jobset-webhook-service",
    ),
    "lws": Operator(
        title="LeaderWorkerSet",
        kinds=("LeaderWorkerSet",),
        definitions="config/crd/bases/*.yaml",
        webhooks="config/webhook",
        launch="leader_worker_set",
        namespace="lws-system",
        service="lws-webhook-service",
    ),
    "trainer": Operator(
        title="Kubeflow Trainer",
        kinds=("TrainJob",),
        definitions="manifests/base/crds/trainer.kubeflow.org_*.yaml",
        webhooks="manifests/base/webhook",
        launch="trainer",
        namespace="kubeflow-system",
        service="kubeflow-trainer-controller-manager",
        needs=("jobset",),
    ),
    "training-operator": Operator(
        title="the training operator",
        kinds=("PyTorchJob", "TFJob", "XGBoostJob", "JAXJob", "PaddleJob", "MPIJob"),
        definitions="manifests/base/crds/kubeflow.org_*.yaml",
        webhooks="manifests/base/webhook",
        launch="training_operator",
        namespace="kubeflow",
        service="training-operator",
        secret="training-operator-webhook-cert",
        authority="training-operator-ca",
    ),
    "mpi-operator": Operator(
        title="the MPI operator",
        kinds=("MPIJob",),
        definitions="manifests/base/kubeflow.org_mpijobs.yaml",
        launch="mpi_operator",
        namespace="mpi-operator",
        port=8080,
    ),
    "kuberay": Operator(
        title="KubeRay",
        kinds=("RayCluster", "RayJob", "RayService"),
        definitions="config/crd/bases/*.yaml",
        launch="kuberay",
        namespace="ray-system",
    ),
    FAKE_GPU_OPERATOR: Operator(
        title="the fake-gpu-operator",
        kinds=(),
        definitions="deploy/fake-gpu-operator/crds/*.yaml",
        launch="fake_gpu_operator",
        namespace="gpu-operator",
        publishes_gpus=True,
    ),
}
"""In the order of messages and of starting."""


def programs_of(name: str) -> tuple[str, ...]:
    """The programs of an operator, which are also the names of its processes."""
    return tuple(pin.name for pin in ADDONS[name] if pin.name != MANIFESTS)


def choose_operators(names: str, backend: str = "controlplane") -> tuple[str, ...]:
    """Parse names separated by commas: each once, in the registry's order, with the operators that they need. Raises InputError for an
    unknown name, for operators that make pods for the same kind, and for one whose webhooks the backend can't call."""
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if not chosen:
        raise InputError(f"expected names of operators, separated by commas; there are {', '.join(OPERATORS)}")
    for name in chosen:
        if name in ADDONS and name not in OPERATORS:
            raise InputError(f"{name!r} is a scheduler, not an operator; use --scheduler {name}")
        if name not in OPERATORS:
            raise InputError(f"there is no operator {name!r}; there are {', '.join(OPERATORS)}")
    wanted = set(chosen).union(*(OPERATORS[name].needs for name in chosen))
    result = tuple(name for name in OPERATORS if name in wanted)
    if not BACKENDS[backend].calls_webhooks:
        for name in result:
            if OPERATORS[name].webhooks:
                raise InputError(
                    f"the webhooks of {name} are on this machine, where the API server of the backend {backend} can't call them; "
                    f"there can be {', '.join(one for one, operator in OPERATORS.items() if not operator.webhooks)}"
                )
    for name, other in combinations(result, 2):
        if both := [kind for kind in OPERATORS[name].kinds if kind in OPERATORS[other].kinds]:
            raise InputError(
                f"{name} and {other} can't run together: both make the pods of {', '.join(both)}; leave one out"
            )
    return result
