"""Work of operators' kinds: which pods are one gang, whichever controller creates them.

An embedded lab makes the pods as the operators do. On a control plane the operators themselves run: --kailab-with.
"""

import pytest

from kailab.lab import expect

pytestmark = pytest.mark.exercise("operators")

# Kind, and the pods of its one gang, ten of which want a GPU.
gangs = pytest.mark.parametrize(
    ("kind", "pods"),
    [
        pytest.param("JobSet", 10, marks=pytest.mark.kailab_operator("jobset")),
        pytest.param("PyTorchJob", 10, marks=pytest.mark.kailab_operator("training-operator")),
        pytest.param("TrainJob", 10, marks=pytest.mark.kailab_operator("trainer")),
        pytest.param("MPIJob", 11, marks=pytest.mark.kailab_operator("mpi-operator")),
        pytest.param("RayCluster", 11, marks=pytest.mark.kailab_operator("kuberay")),
    ],
)


@gangs
def test_ten_wanted_eight_free_none_runs(lab, kind, pods):
    """Not even the launcher or the head, which want no GPU: all pods are members of one gang."""
    lab.apply("manifests/queues.yaml", "manifests/filler.yaml")
    lab.settle()
    lab.apply(f"manifests/{kind.lower()}.yaml")

    expect(lab.workload(kind, "work")).waits_whole(pods=pods)
    expect(lab).running(gpus=24)


@gangs
def test_room_is_made_and_all_start(lab, kind, pods):
    """The filler ends; all pods are placed."""
    lab.apply("manifests/queues.yaml", "manifests/filler.yaml")
    lab.settle()
    lab.apply(f"manifests/{kind.lower()}.yaml")
    expect(lab.workload(kind, "work")).waits_whole()

    lab.delete("Deployment", "filler")
    expect(lab.workload(kind, "work")).runs_whole(pods=pods)


@pytest.mark.kailab_operator("lws")
def test_each_group_of_a_leaderworkerset_is_a_gang(lab):
    """Two groups of five, eight free: one runs whole, the other waits whole."""
    lab.apply("manifests/queues.yaml", "manifests/filler.yaml")
    lab.settle()
    lab.apply("manifests/leaderworkerset.yaml")

    expect(lab.workload("LeaderWorkerSet", "work")).running(pods=5).pending(pods=5)
    groups = [one for one in lab.get("PodGroup") if one["spec"].get("minMember") == 5]
    assert len(groups) == 2

    lab.delete("Deployment", "filler")
    expect(lab.workload("LeaderWorkerSet", "work")).running(pods=10).no_pending().not_evicted()
