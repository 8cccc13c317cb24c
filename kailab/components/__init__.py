"""The programs of a real control plane: the pinned set, found, downloaded or built."""

from kailab.components.acquisition import AcquisitionMethod, Addon, find_addon, get_addon, get_components, get_program
from kailab.components.cache import CacheEntry, ComponentCache
from kailab.components.errors import (
    DamagedComponent,
    DownloadFailed,
    MissingComponents,
    WrongChecksum,
    WrongComponent,
)
from kailab.components.lookup import FOLDER, ComponentSet, find_components, find_program
from kailab.components.manifests import ComponentManifests
from kailab.components.pins import (
    ADDONS,
    DEFAULT_KUBERNETES,
    HELM,
    KIND,
    KUBERNETES,
    PROGRAMS,
    VCLUSTER,
    VCLUSTER_CHART,
    DownloadSources,
    Pin,
    kubernetes_version,
    pins,
)

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
    "ComponentCache",
    "ComponentSet",
    "DamagedComponent",
    "DownloadFailed",
    "CacheEntry",
    "ComponentManifests",
    "MissingComponents",
    "Pin",
    "DownloadSources",
    "AcquisitionMethod",
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
