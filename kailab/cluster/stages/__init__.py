"""KWOK stages (kwok.x-k8s.io/v1alpha1, KWOK v0.7.0), which give the fake nodes and pods of a real cluster the life that
they have in the embedded cluster (``kailab.cluster.pod_lifecycle``).

Differences, because a stage sees only its own object:

* Stages don't know the node: pods on a node that is not Ready still become ready, end and leave. A pod that the node lifecycle controller has
  marked as not ready stays so after its node is back.
* The events of a saved or lost checkpoint come from ``kwok_controller``, not ``kubelet``.
* The back-off of a crashing container doubles up to 5 min and stays there: as in the embedded cluster, and unlike with a kubelet, a long good run
  does not reset it to 10 s.
* On kind and on a kubeconfig's cluster, a KWOK that was killed acts on its nodes again only when its old leases have expired (40 s).
* A write that conflicts with another one is repeated when KWOK sees that one, so everything happens at its time or a little later. The deletion of a
  pod can't be tied to its uid.
"""

from kailab.cluster.stages.files import stages, write_stages

__all__ = ["stages", "write_stages"]
