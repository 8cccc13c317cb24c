"""What a cluster needs before it can have a lab: KAI's kinds, priority classes and namespaces; and devices for DRA."""

from kailab.cluster.install.definitions import crds
from kailab.cluster.install.devices import claimed_nodes, fleet_devices, furnishings
from kailab.cluster.install.installation import CRD, INSTALLED_BY, await_established, install, installed, uninstall

__all__ = [
    "CRD",
    "INSTALLED_BY",
    "await_established",
    "claimed_nodes",
    "crds",
    "fleet_devices",
    "furnishings",
    "install",
    "installed",
    "uninstall",
]
