"""The embedded cluster: API server, kubelet and clock in this process, in virtual time.

cluster      ``EmbeddedCluster``, which implements the protocol with the modules below
admission    defaults and checks of new and changed objects
limits       LimitRanges: defaults and bounds of containers, pods and claims
quotas       ResourceQuotas: usage, and refusals beyond it
volumes      claims are bound to volumes, and volumes are provisioned
updates      update, patch and apply
deletion     grace periods, finalizers, dependents, terminating namespaces
pod_status   states of pods, as pure functions
nodes        the fake kubelet, and what happens to pods when nodes fail
storage      objects, events, and the file of a saved lab
"""

from kailab.cluster.embedded.cluster import EmbeddedCluster
from kailab.cluster.embedded.storage.state_file import StateLock

__all__ = ["EmbeddedCluster", "StateLock"]
