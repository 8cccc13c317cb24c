"""How each project's programs are built: from which Go module, which main package, with what of the module's own settings.

Times are with empty caches on two cores; what the programs of one project share is built with the first of them.
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
    """``module``: its path. ``packages``: of each program, seen from the module; a program that is not named is in ``cmd/`` under
    its own name. ``seconds``, ``megabytes``: what a build takes, and how large the program is. ``beside``: modules and versions that
    raise what the build is made of, so that programs of several modules share it. ``lent``: the module's own ``replace`` and
    ``exclude`` lines hold, and its checksums, for versions that the checksum database does not have. ``manifests``: the folders of
    the YAML that a cluster needs for it. ``files``: those of which every file is kept."""

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
"""By the project of a pin."""


def usual_seconds(pin: Pin) -> int:
    """How long a build takes with empty caches on this machine, about."""
    # What files take is a download of some megabytes.
    seconds = RECIPES[pin.project].seconds.get(pin.name, 10)
    return max(seconds * _USUAL_CORES // max(os.cpu_count() or 1, 1), 5)


def usual_megabytes(pin: Pin) -> int:
    """How large the program is, about; 0: nobody has said."""
    return 0 if pin.name in (MANIFESTS, *FILES) else RECIPES[pin.project].megabytes.get(pin.name, 0)
