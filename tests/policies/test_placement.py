"""Node scores, each compared with its source, on nodes with some GPUs in use."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from kailab.engine.policies.views import NodesView
from kailab.engine.snapshot.gpu_requests import NO_GPU, GpuFraction
from kailab.engine.snapshot.records import GPU, Node, Shape, Task
from kailab.policies.fragmentation import Fgd, FgdPacked, TypicalWorkload, fragments, typical
from kailab.policies.placement import BestFit, DotProduct, GpuClustering, GpuPacking, Random


class Nodes:
    """Nodes by name: what is free on each GPU in milli-GPU, of ``size`` GPUs, and millicores free of 100,000."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, list[int], int, str, frozenset[int]]] = []

    def node(self, name: str, *devices: int, cpu: int = 100_000, model: str = "", held: tuple[int, ...] = ()) -> Nodes:
        self._rows.append((name, list(devices), cpu, model, frozenset(held)))
        return self

    def view(self) -> NodesView:
        most = max(len(devices) for _, devices, *_ in self._rows)
        devices = np.array([row + [0] * (most - len(row)) for _, row, *_ in self._rows])
        cpu = np.array([cpu for _, _, cpu, *_ in self._rows])
        zeros = np.zeros(len(cpu), dtype=np.int64)
        return NodesView(
            records=tuple(
                Node(name=name, labels=(("nvidia.com/gpu.product", model),) if model else ()) for name, _, _, model, _ in self._rows
            ),
            idle_cpu=cpu, idle_memory=zeros, idle_gpu=(devices == GPU).sum(axis=1) * GPU,
            leaving_cpu=zeros, leaving_memory=zeros, leaving_gpu=zeros,
            all_cpu=np.full(len(cpu), 100_000), all_gpu=np.array([len(row) * GPU for _, row, *_ in self._rows]),
            look_at_devices=lambda: devices, look_at_requests=lambda: tuple(held for *_, held in self._rows),
            look_at_label=lambda key: np.array([model for _, _, _, model, _ in self._rows]),
        )  # fmt: skip

    def best(self, policy, task: Task) -> str:
        return self.ranked(policy, task)[0]

    def ranked(self, policy, task: Task) -> list[str]:
        scores = policy.score(task, self.view())
        assert ((scores >= 0) & (scores <= 1)).all()
        return [self._rows[i][0] for i in np.argsort(-scores, kind="stable")]


def pod(gpus: float, cpu: int = 0, name: str = "pod") -> Task:
    whole = gpus >= 1
    gpu = GpuFraction.of(int(gpus) if whole else 1, GPU if whole else round(gpus * GPU)) if gpus else NO_GPU
    return Task(uid=name, name=name, namespace="d", podgroup="g", shape=Shape(cpu=cpu, gpu=gpu))


def test_best_fit_leaves_the_least_over_all_resources() -> None:
    nodes = Nodes().node("empty", 1000, 1000).node("tight", 1000, 300).node("half", 1000, 600, cpu=20_000)
    assert nodes.ranked(BestFit(), pod(1, cpu=10_000)) == ["half", "tight", "empty"]


def test_dot_product_takes_the_smallest_product_of_free_and_wanted() -> None:
    nodes = Nodes().node("much", 1000, 1000).node("little-gpu", 1000, 0).node("little-cpu", 1000, 1000, cpu=10_000)
    # GPU work weighs GPUs, CPU work CPU.
    assert nodes.best(DotProduct(), pod(1, cpu=1_000)) == "little-gpu"
    assert nodes.best(DotProduct(), pod(0, cpu=5_000)) == "little-cpu"


def test_gpu_packing_shares_before_it_opens_a_gpu_and_that_before_it_opens_a_node() -> None:
    nodes = Nodes().node("free", 1000, 1000).node("used", 1000, 0).node("shared", 600, 1000).node("fuller", 400, 1000)
    assert nodes.ranked(GpuPacking(), pod(0.3)) == ["fuller", "shared", "used", "free"]
    assert nodes.best(GpuPacking(), pod(0.5)) == "shared"
    assert nodes.ranked(GpuPacking(), pod(1))[-1] == "free"


def test_gpu_clustering_keeps_requests_of_one_size_together() -> None:
    nodes = (
        Nodes()
        .node("other", 1000, 500, held=(8,))
        .node("none", 1000, 1000)
        .node("mixed", 1000, 500, held=(0, 1))
        .node("alike", 1000, 500, held=(0,))
        .node("alike-fuller", 300, 500, held=(0,))
    )
    assert nodes.ranked(GpuClustering(), pod(0.3)) == ["alike-fuller", "alike", "mixed", "none", "other"]


def test_random_is_any_node_and_always_the_same_for_a_seed() -> None:
    nodes = Nodes()
    for number in range(10):
        nodes.node(f"n{number}", 1000)
    result = [nodes.best(Random(seed=seed), pod(1, name=f"p{number}")) for seed in (1, 2) for number in range(40)]
    assert result == [
        nodes.best(Random(seed=seed), pod(1, name=f"p{number}")) for seed in (1, 2) for number in range(40)
    ]
    assert result[:40] != result[40:]
    assert len(set(result)) == 10


# Fragmentation


def free_on(*rows: list[int]) -> np.ndarray:
    return np.array(rows)


def test_what_a_pod_can_not_use_is_a_fragment_to_it() -> None:
    half = TypicalWorkload(cpu=1000, devices=1, portion=500, models=(), part=1.0)
    devices, cpu = free_on([600, 300], [300, 300], [600, 300]), np.array([9000, 9000, 0])
    # The small rest; all that is free where no device suffices; all that is free where the CPU does not.
    assert fragments(devices, cpu, np.array(["", "", ""]), [half]).tolist() == [300, 600, 900]


def test_to_work_on_other_models_and_without_gpus_all_is_a_fragment() -> None:
    on_t4 = TypicalWorkload(cpu=0, devices=1, portion=1000, models=("T4",), part=0.5)
    no_gpu = TypicalWorkload(cpu=0, devices=0, portion=1000, models=(), part=0.5)
    devices, cpu = free_on([1000, 0], [1000, 0]), np.array([0, 0])
    assert fragments(devices, cpu, np.array(["T4", "P100"]), [on_t4]).tolist() == [0, 500]
    assert fragments(devices, cpu, np.array(["T4", "P100"]), [on_t4, no_gpu]).tolist() == [500, 1000]


def test_fgd_descends_the_fragmentation() -> None:
    # Pods of 0.5 and of two whole GPUs are to be expected: a share of 0.5 completes a device rather than break up the pair.
    workload = (TypicalWorkload(0, 1, 500, (), 0.5), TypicalWorkload(0, 2, 1000, (), 0.5))
    nodes = Nodes().node("pair", 1000, 1000).node("rest", 500, 0)
    assert nodes.best(Fgd(workload=workload), pod(0.5)) == "rest"
    # 0.3 in the rest would leave 0.2 that nobody can use; in the single GPU it leaves 0.7, of use to halves.
    nodes = Nodes().node("rest", 500, 0).node("single", 1000, 0)
    assert nodes.best(Fgd(workload=(TypicalWorkload(0, 1, 500, (), 1.0),)), pod(0.3)) == "single"


def test_fgd_takes_the_device_of_which_the_fragmentation_grows_least() -> None:
    workload = (TypicalWorkload(0, 1, 500, (), 1.0),)
    node = Nodes().node("node", 500, 800, 1000).view()
    # 0.3 in the half would leave 0.2 that nobody can use, and in the whole one a half.
    messages = Fgd(workload=workload).devices(pod(0.3), node, np.array([500, 800, 1000]))
    assert messages.tolist() == [0.45, 0.5, 0.5]


def test_scores_are_whole_hundredths_so_that_small_differences_do_not_count() -> None:
    nodes = Nodes().node("a", 1000, 1000, cpu=90_000).node("b", 1000, 1000, cpu=89_900).node("c", 1000, 0, cpu=90_000)
    assert nodes.ranked(BestFit(), pod(1)) == ["c", "a", "b"]
    assert nodes.ranked(DotProduct(), pod(1)) == ["c", "a", "b"]


def test_packed_fgd_takes_what_is_of_least_use_to_others_of_what_is_equal() -> None:
    # To pods that want a whole GPU all shares are fragments alike.
    workload = (TypicalWorkload(0, 1, 1000, (), 1.0),)
    nodes = Nodes().node("free", 400, 0).node("used", 400, 0, cpu=50_000)
    assert nodes.best(Fgd(workload=workload), pod(0.3)) == "free"
    nodes = Nodes().node("untouched", 1000, 1000).node("used", 1000, 1000, cpu=50_000)
    assert nodes.best(Fgd(workload=workload), pod(1)) == "untouched"
    assert nodes.best(FgdPacked(workload=workload), pod(1)) == "used"
    nodes = Nodes().node("a", 1000, 1000, cpu=50_000).node("b", 1000, 0, cpu=50_000)
    assert nodes.best(Fgd(workload=workload), pod(0, cpu=100)) == "a"
    assert nodes.best(FgdPacked(workload=workload), pod(0, cpu=100)) == "b"
    # A hundredth of all pods need 10,000 millicores, two 20,000: what either costs is less than a hundredth of the score.
    rare = (
        TypicalWorkload(10_000, 1, 1000, (), 0.01),
        TypicalWorkload(20_000, 1, 1000, (), 0.02),
        TypicalWorkload(0, 1, 1000, (), 0.97),
    )
    nodes = Nodes().node("a", 1000, cpu=22_000).node("b", 1000, cpu=12_000)
    assert nodes.best(Fgd(workload=rare), pod(0, cpu=5_000)) == "a"
    assert nodes.best(FgdPacked(workload=rare), pod(0, cpu=5_000)) == "b"
    node = Nodes().node("node", 800, 400).view()
    room = np.array([800, 400])
    assert np.argmax(Fgd(workload=workload).devices(pod(0.3), node, room)) == 0
    assert np.argmax(FgdPacked(workload=workload).devices(pod(0.3), node, room)) == 1


def test_random_takes_any_device_and_each_whole_one_as_often_as_a_shared_one() -> None:
    node = Nodes().node("node", 500, 1000, 1000, 1000).view()
    taken = [
        int(np.argmax(Random(seed=1).devices(pod(0.3, name=f"p{number}"), node, np.array([500, 1000]))))
        for number in range(400)
    ]
    assert 240 < sum(taken) < 350  # three quarters


def test_typical_pods_are_the_most_frequent_up_to_a_part_of_all() -> None:
    one, two, rare = (0, 1, 1000, ()), (0, 2, 1000, ()), (0, 8, 1000, ())
    result = typical([one] * 60 + [two] * 36 + [rare] * 4)
    assert [(sort.devices, sort.part) for sort in result] == [(1, pytest.approx(60 / 96)), (2, pytest.approx(36 / 96))]


def simulated_fragmentation(devices, cpu, model, workload) -> float:
    """NodeGpuShareFragAmountScore of FGD's simulator (pkg/utils/frag.go), line by line."""
    total, amounts = sum(devices), [0.0] * 7
    for sort in workload:
        room = sum(left >= sort.portion for left in devices) >= sort.devices
        enough = cpu >= sort.cpu
        if not sort.devices:
            amounts[4 if enough else 5] += sort.part * total
        elif sort.models and model not in sort.models:
            amounts[6] += sort.part * total
        elif room and enough:
            amounts[1] += sort.part * sum(left for left in devices if left < sort.portion)
        else:
            amounts[3 if room else 1 if enough else 0] += sort.part * total
    out = 0.0
    for number in (0, 1, 3, 4, 5, 6):
        out += amounts[number]
    return out


def test_fgd_adds_as_its_simulator_does_if_asked_to() -> None:
    chance = random.Random(3)
    models = ((), ("T4",), ("T4", "V100"))
    pods = [
        (
            chance.choice((0, 4000, 8000)),
            devices,
            1000 if devices > 1 else chance.choice((100, 300, 460, 1000)),
            chance.choice(models),
        )
        for _ in range(400)
        for devices in (chance.choice((0, 1, 1, 2, 4)),)
    ]
    workload = typical(pods)
    for _ in range(60):
        devices = [chance.choice((0, 300, 540, 1000, 1000)) for _ in range(4)]
        cpu, model = chance.choice((3000, 6000, 50_000)), chance.choice(("T4", "V100", "G2"))
        view = Nodes().node("node", *devices, cpu=cpu, model=model).view()
        before = simulated_fragmentation(devices, cpu, model, workload)
        for place, left in enumerate(devices):
            if left < 300 or cpu < 2000:
                continue
            after_devices = [*devices[:place], left - 300, *devices[place + 1 :]]
            after = simulated_fragmentation(after_devices, cpu - 2000, model, workload)
            expected = int(1 / (1 + math.exp((after - before) / 1000)) * 100) / 100
            room = np.array([left])
            found = Fgd(workload=workload, adding="as-simulated").devices(pod(0.3, cpu=2000), view, room)
            assert found.tolist() == [expected]


def test_packed_fgd_adds_whole_numbers_only() -> None:
    with pytest.raises(ValueError, match="adding applies to fgd only"):
        FgdPacked(workload=(), adding="as-simulated")
