"""The programs of a real control plane, and others that labs use: pinned versions, found, downloaded or built.

pins           programs, versions and download addresses
lookup         programs that are here: in a folder, in the cache, in PATH
acquisition    programs that are not here: ``download`` and ``build`` (with ``recipes``)
cache          the user's cache, with checksums and locks
versions       the version of a program
manifests      YAML of a project that a cluster needs
"""

from kailab.components.acquisition import AcquisitionMethod, Addon, find_addon, get_addon, get_components, get_program
from kailab.components.cache import ComponentCache
from kailab.components.errors import DamagedComponent, MissingComponents, WrongChecksum, WrongComponent
from kailab.components.lookup import FOLDER, ComponentSet, find_components, find_program
from kailab.components.manifests import ComponentManifests
from kailab.components.pins import (
    ADDONS,
    DEFAULT_KUBERNETES,
    HELM,
    KIND,
    PROGRAMS,
    VCLUSTER,
    VCLUSTER_CHART,
    DownloadSources,
    Pin,
    pins,
)

__all__ = [
    "ADDONS",
    "DEFAULT_KUBERNETES",
    "FOLDER",
    "HELM",
    "KIND",
    "PROGRAMS",
    "VCLUSTER",
    "VCLUSTER_CHART",
    "AcquisitionMethod",
    "Addon",
    "ComponentCache",
    "ComponentManifests",
    "ComponentSet",
    "DamagedComponent",
    "DownloadSources",
    "MissingComponents",
    "Pin",
    "WrongChecksum",
    "WrongComponent",
    "find_addon",
    "find_components",
    "find_program",
    "get_addon",
    "get_components",
    "get_program",
    "pins",
]
