"""How the programs of each project are built: Go module, main packages, and the module's own settings that apply.

Times are with empty caches on two cores; the first program of a project also builds what its others share.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from kailab.components.pins import FAKE_GPU_OPERATOR, FILES, MANIFESTS, Pin

_USUAL_CORES = 2
_KUEUE = ("sigs.k8s.io/kueue v0.19.2",)
_KUBERNETES = tuple(
    f"k8s.io/{module} v0.35.4"
    for module in ("api", "apiextensions-apiserver", "apimachinery", "apiserver", "client-go", "component-base")
)
_CONFIG = ("config/components/crd", "config/components/webhook")
_KUBEFLOW = ("manifests/base/crds", "manifests/base/webhook")


class Recipe(NamedTuple):
    """How Go builds a project's programs. ``module``: its path. ``packages``: of each program, relative to the module;
    default: ``cmd/`` and the program's name. ``seconds``, ``megabytes``: the time of a build, and the size of the
    program. ``beside``: modules and versions that raise the requirements, so that programs of several modules share
    builds. ``lent``: apply the module's own ``replace`` and ``exclude`` lines, and use its checksums, for versions that
    the checksum database does not have. ``manifests``: folders with the YAML that a cluster needs. ``files``: folders
    of which every file is kept. ``commit``: the commit of the version, if no module proxy has the module, so that it is
    built from its repository."""

    module: str
    packages: Mapping[str, str] = {}
    seconds: Mapping[str, int] = {}
    megabytes: Mapping[str, int] = {}
    beside: tuple[str, ...] = ()
    lent: bool = False
    manifests: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    commit: str = ""

    def package(self, program: str) -> str:
        inside = self.packages.get(program, f"cmd/{program}")
        return f"{self.module}/{inside}" if inside else self.module


def _addon(
    name: str,
    module: str,
    seconds: int,
    megabytes: int,
    manifests: tuple[str, ...],
    package: str | None = None,
    beside: tuple[str, ...] = (),
) -> Recipe:
    """The recipe of a project with one program of its own name. ``package``: None for the default."""
    packages = {} if package is None else {name: package}
    return Recipe(module, packages, {name: seconds}, {name: megabytes}, beside, lent=True, manifests=manifests)


RECIPES: Mapping[str, Recipe] = {
    "kubernetes": Recipe(
        "k8s.io/kubernetes",
        seconds={
            "kube-apiserver": 300,
            "kube-controller-manager": 90,
            "kube-scheduler": 30,
            "kubectl": 60,
            "kubelet": 120,
            "kubeadm": 30,
            "kube-proxy": 20,
        },
    ),
    "etcd": Recipe("go.etcd.io/etcd/server/v3", seconds={"etcd": 60}),
    "kwok": Recipe("sigs.k8s.io/kwok", seconds={"kwok": 120}),
    "kind": Recipe("sigs.k8s.io/kind", packages={"kind": ""}, seconds={"kind": 20}, files=("images/base/files",)),
    "helm": Recipe("helm.sh/helm/v3", seconds={"helm": 130}, megabytes={"helm": 60}),
    "vcluster": Recipe(
        "github.com/loft-sh/vcluster",
        packages={"vcluster": "cmd/vclusterctl", "vcluster-syncer": "cmd/vcluster"},
        seconds={"vcluster": 420, "vcluster-syncer": 420},
        megabytes={"vcluster": 110, "vcluster-syncer": 110},
        lent=True,
        files=("chart",),
    ),
    "kine": Recipe(
        "github.com/k3s-io/kine", packages={"kine": ""}, seconds={"kine": 240}, megabytes={"kine": 41}, lent=True
    ),
    "u-root": Recipe(
        "github.com/u-root/u-root", packages={"cp": "cmds/core/cp"}, seconds={"cp": 10}, megabytes={"cp": 3}
    ),
    "coredns": Recipe("github.com/coredns/coredns", packages={"coredns": ""}, seconds={"coredns": 300}, lent=True),
    "kueue": _addon("kueue", "sigs.k8s.io/kueue", 900, 110, _CONFIG),
    "jobset": _addon("jobset", "sigs.k8s.io/jobset", 600, 70, _CONFIG, "", _KUEUE),
    "lws": _addon("lws", "sigs.k8s.io/lws", 600, 70, ("config/crd", "config/webhook"), "cmd", _KUEUE),
    "trainer": _addon(
        "trainer", "github.com/kubeflow/trainer/v2", 600, 70, _KUBEFLOW, "cmd/trainer-controller-manager", _KUEUE
    ),
    "training-operator": _addon(
        "training-operator", "github.com/kubeflow/training-operator", 600, 60, _KUBEFLOW, "cmd/training-operator.v1"
    ),
    "mpi-operator": _addon(
        "mpi-operator", "github.com/kubeflow/mpi-operator", 600, 60, ("manifests/base",), beside=_KUEUE
    ),
    "kuberay": _addon(
        "kuberay", "github.com/ray-project/kuberay/ray-operator", 600, 60, ("config/crd",), "", _KUBERNETES
    ),
    FAKE_GPU_OPERATOR: Recipe(
        "github.com/run-ai/fake-gpu-operator",
        seconds={"status-updater": 400, "kwok-gpu-device-plugin": 20},
        megabytes={"status-updater": 45, "kwok-gpu-device-plugin": 40},
        manifests=("deploy/fake-gpu-operator/crds",),
        commit="3a3f644168693070fddca3de1a1a576b57c339aa",  # file names of its examples can't be in a module
    ),
    "scheduler-plugins": _addon(
        "scheduler-plugins", "sigs.k8s.io/scheduler-plugins", 500, 80, ("config/crd/bases",), "cmd/scheduler"
    ),
    "yunikorn": _addon(
        "yunikorn", "github.com/apache/yunikorn-k8shim", 600, 70, ("deployments/scheduler",), "pkg/cmd/shim"
    ),
}
"""Project of a pin -> its recipe."""


def usual_seconds(pin: Pin) -> int:
    """About how long a build with empty caches takes on this machine."""
    # An archive of files takes a download of some megabytes.
    seconds = RECIPES[pin.project].seconds.get(pin.name, 10)
    return max(seconds * _USUAL_CORES // max(os.cpu_count() or 1, 1), 5)


def usual_megabytes(pin: Pin) -> int:
    """About how large the program is; 0: unknown."""
    return 0 if pin.name in (MANIFESTS, *FILES) else RECIPES[pin.project].megabytes.get(pin.name, 0)
