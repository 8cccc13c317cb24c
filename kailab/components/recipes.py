"""How the programs of each project are built: Go module, main packages, and the module's own settings that apply.

Times are with empty caches on two cores; the first program of a project also builds what its others share.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from kailab.components.pins import FILES, MANIFESTS, Pin

_USUAL_CORES = 2
_BESIDE_KUEUE = ("sigs.k8s.io/kueue v0.19.2",)
_KUBERNETES_MODULES = ("api", "apiextensions-apiserver", "apimachinery", "apiserver", "client-go", "component-base")


class Recipe(NamedTuple):
    """How Go builds a project's programs. ``module``: its path. ``packages``: of each program, relative to the module;
    default: ``cmd/`` and the program's name. ``seconds``, ``megabytes``: the time of a build, and the size of the
    program. ``beside``: modules and versions that raise the requirements, so that programs of several modules share
    builds. ``lent``: apply the module's own ``replace`` and ``exclude`` lines, and use its checksums, for versions that
    the checksum database does not have. ``manifests``: folders with the YAML that a cluster needs. ``files``: folders
    of which every file is kept."""

    module: str
    packages: Mapping[str, str] = {}
    seconds: Mapping[str, int] = {}
    megabytes: Mapping[str, int] = {}
    beside: tuple[str, ...] = ()
    lent: bool = False
    manifests: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def package(self, program: str) -> str:
        inside = self.packages.get(program, f"cmd/{program}")
        return f"{self.module}/{inside}" if inside else self.module


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
    "kueue": Recipe(
        "sigs.k8s.io/kueue",
        seconds={"kueue": 900},
        megabytes={"kueue": 110},
        lent=True,
        manifests=("config/components/crd", "config/components/webhook"),
    ),
    "jobset": Recipe(
        "sigs.k8s.io/jobset",
        packages={"jobset": ""},
        seconds={"jobset": 600},
        megabytes={"jobset": 70},
        beside=_BESIDE_KUEUE,
        lent=True,
        manifests=("config/components/crd", "config/components/webhook"),
    ),
    "lws": Recipe(
        "sigs.k8s.io/lws",
        packages={"lws": "cmd"},
        seconds={"lws": 600},
        megabytes={"lws": 70},
        beside=_BESIDE_KUEUE,
        lent=True,
        manifests=("config/crd", "config/webhook"),
    ),
    "trainer": Recipe(
        "github.com/kubeflow/trainer/v2",
        packages={"trainer": "cmd/trainer-controller-manager"},
        seconds={"trainer": 600},
        megabytes={"trainer": 70},
        beside=_BESIDE_KUEUE,
        lent=True,
        manifests=("manifests/base/crds", "manifests/base/webhook"),
    ),
    "training-operator": Recipe(
        "github.com/kubeflow/training-operator",
        packages={"training-operator": "cmd/training-operator.v1"},
        seconds={"training-operator": 600},
        megabytes={"training-operator": 60},
        lent=True,
        manifests=("manifests/base/crds", "manifests/base/webhook"),
    ),
    "mpi-operator": Recipe(
        "github.com/kubeflow/mpi-operator",
        seconds={"mpi-operator": 600},
        megabytes={"mpi-operator": 60},
        beside=_BESIDE_KUEUE,
        lent=True,
        manifests=("manifests/base",),
    ),
    "kuberay": Recipe(
        "github.com/ray-project/kuberay/ray-operator",
        packages={"kuberay": ""},
        seconds={"kuberay": 600},
        megabytes={"kuberay": 60},
        beside=tuple(f"k8s.io/{module} v0.35.4" for module in _KUBERNETES_MODULES),
        lent=True,
        manifests=("config/crd",),
    ),
    "scheduler-plugins": Recipe(
        "sigs.k8s.io/scheduler-plugins",
        packages={"scheduler-plugins": "cmd/scheduler"},
        seconds={"scheduler-plugins": 500},
        megabytes={"scheduler-plugins": 80},
        lent=True,
        manifests=("config/crd/bases",),
    ),
    "yunikorn": Recipe(
        "github.com/apache/yunikorn-k8shim",
        packages={"yunikorn": "pkg/cmd/shim"},
        seconds={"yunikorn": 600},
        megabytes={"yunikorn": 70},
        lent=True,
        manifests=("deployments/scheduler",),
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
