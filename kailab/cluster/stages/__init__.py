"""KWOK stages (kwok.x-k8s.io/v1alpha1, of KWOK v0.7.0) that give the fake nodes and pods of a real cluster the life that
those of the embedded cluster have: ``kailab.cluster.pod_lifecycle``.

What stages can't do, because a stage sees its own object only:

* they don't know of the node: pods on a node that is not Ready go on to become ready, to end and to leave, and a pod that
  the node lifecycle controller has marked as not ready stays so after its node came back;
* the events of a saved or lost checkpoint come from ``kwok_controller``, not ``kubelet``;
* the back-off of a crashing container doubles up to 5 min and then stays: as in the embedded cluster, and other than with
  a kubelet, a long good run does not set it back to 10 s;
* on kind and on a kubeconfig's cluster a KWOK that was killed acts on its nodes again only when the leases that it held have run
  out (40 s);
* a write that loses against another one is made again when KWOK sees the other, so everything happens at its time or a
  little later; the deletion of a pod can't be tied to its uid.
"""

from kailab.cluster.stages.files import stages, write_stages

__all__ = ["stages", "write_stages"]
