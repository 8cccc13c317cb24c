"""The programs of a real control plane: the pinned set, found, downloaded or built."""

from kailab.components.addons import Addon, find_addon, get_addon
from kailab.components.cache import Cache, Entry
from kailab.components.failures import (
    DamagedComponent,
    DownloadFailed,
    MissingComponents,
    WrongChecksum,
    WrongComponent,
)
from kailab.components.getting import Way, get_components, get_program
from kailab.components.manifests import Manifests
from kailab.components.pins import (
    ADDONS,
    DEFAULT_KUBERNETES,
    HELM,
    KIND,
    KUBERNETES,
    PROGRAMS,
    VCLUSTER,
    VCLUSTER_CHART,
    Pin,
    kubernetes_version,
    pins,
)
from kailab.components.programs import find_program
from kailab.components.sets import FOLDER, ComponentSet, find_components
from kailab.components.sources import Sources

__all__ = [
    "ADDONS",
    "DEFAULT_KUBERNETES",
    "FOLDER",
    "HELM",
    "KIND",
    "KUBERNETES",
    "PROGRAMS",
    "VCLUSTER",
    "VCLUSTER_CHART",
    "Addon",
    "Cache",
    "ComponentSet",
    "DamagedComponent",
    "DownloadFailed",
    "Entry",
    "Manifests",
    "MissingComponents",
    "Pin",
    "Sources",
    "Way",
    "WrongChecksum",
    "WrongComponent",
    "find_addon",
    "find_components",
    "find_program",
    "get_addon",
    "get_components",
    "get_program",
    "kubernetes_version",
    "pins",
]
