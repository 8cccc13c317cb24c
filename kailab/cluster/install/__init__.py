"""What a cluster needs before a lab can be in it: KAI's kinds, priority classes and namespaces; and devices for DRA."""

from kailab.cluster.install.definitions import crds
from kailab.cluster.install.devices import fleet_devices
from kailab.cluster.install.installation import INSTALLED_BY, install, installed, uninstall

__all__ = ["INSTALLED_BY", "crds", "fleet_devices", "install", "installed", "uninstall"]
