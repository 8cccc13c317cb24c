"""What differs between KAI's releases, as a table: flags, certificates, ports, definitions, words."""

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.undertest.contract import EvictionCondition
from kailab.undertest.kai import messages
from kailab.undertest.kai.folder import BINARIES
from kailab.undertest.kai.releases import (
    FLAGS,
    LINES,
    MARKS,
    ReleaseFeatures,
    VersionNumber,
    features_by_marks,
    features_of,
)
from kailab.undertest.kai.topologies import kueue_topology, translate_topologies

FIRST, PATCHED, NINE, TWELVE, LAST = (0, 6, 0), (0, 8, 1), (0, 9, 20), (0, 12, 23), (0, 17, 0)


@pytest.mark.parametrize(
    ("program", "flag", "has"),
    [
        ("scheduler", "qps", {FIRST, PATCHED, NINE, TWELVE, LAST}),
        ("scheduler", "update-pod-eviction-condition", {PATCHED, NINE, TWELVE, LAST}),
        ("binder", "webhook-addr", {FIRST, PATCHED}),
        ("binder", "gpu-sharing-enabled", {FIRST, PATCHED}),
        ("binder", "plugins", {LAST}),
        ("queuecontroller", "metrics-listen-address", {PATCHED, NINE, TWELVE, LAST}),
        ("queuecontroller", "qps", {NINE, TWELVE, LAST}),
        ("queuecontroller", "enable-webhook", {TWELVE, LAST}),
        ("podgroupcontroller", "enable-podgroup-webhook", {TWELVE, LAST}),
    ],
)
def test_flags(program: str, flag: str, has: set[VersionNumber]) -> None:
    for number in (FIRST, PATCHED, NINE, TWELVE, LAST):
        kept = ReleaseFeatures(number).flags(program, (f"--{flag}=1", "--leader-elect=false"))
        assert kept == ((f"--{flag}=1", "--leader-elect=false") if number in has else ("--leader-elect=false",))


@pytest.mark.parametrize(
    ("number", "programs"),
    [
        (FIRST, {"binder", "queuecontroller"}),
        ((0, 8, 2), {"binder", "queuecontroller"}),
        ((0, 8, 3), {"queuecontroller"}),
        (NINE, {"queuecontroller"}),
        ((0, 10, 0), set()),
        (LAST, set()),
    ],
)
def test_programs_that_always_need_a_certificate(number: VersionNumber, programs: set[str]) -> None:
    assert {name for name in BINARIES if ReleaseFeatures(number).wants_certificate(name)} == programs


def test_whose_webhook_a_pod_with_a_part_of_a_gpu_goes_through() -> None:
    asked = (FIRST, (0, 7, 12), (0, 7, 13), NINE, TWELVE, (0, 14, 7), (0, 15, 0), LAST)
    assert [ReleaseFeatures(number).pod_webhook for number in asked] == ["binder"] * 2 + ["admission"] * 4 + [None] * 2


def test_ports_that_no_flag_changes() -> None:
    fixed = {number: ReleaseFeatures(number).fixed_ports("queuecontroller") for number in (FIRST, NINE, TWELVE)}
    assert fixed == {FIRST: (8080, 9443), NINE: (9443,), TWELVE: ()}
    assert {ReleaseFeatures((*line, 0)).fixed_ports("podgroupcontroller") for line in LINES} == {(8080,)}


def test_whose_topology_it_reads() -> None:
    kueues_own = [number for number in (FIRST, (0, 7, 7), (0, 7, 8), NINE, (0, 10, 5), (0, 12, 0)) if _kueue(number)]
    assert kueues_own == [(0, 7, 8), NINE, (0, 10, 5)]
    assert [line for line in LINES if "topologies.kai.scheduler" in ReleaseFeatures((*line, 0)).crds] == list(LINES[5:])


def _kueue(number: VersionNumber) -> bool:
    return ReleaseFeatures(number).kueue_topology


@pytest.mark.parametrize("number", [*((*line, 0) for line in LINES), (0, 7, 13), NINE, TWELVE, (0, 16, 8)], ids=str)
def test_a_release_is_found_by_the_words_in_its_programs(number: VersionNumber) -> None:
    dialect, told = features_by_marks({mark for mark, span in MARKS.items() if span.holds(number)})
    assert dialect.number <= number
    assert told.startswith("v{}.{}.{} or newer".format(*dialect.number))
    # Words may leave several releases open; in what a program must be told and must find they are alike.
    assert needs(dialect) == needs(ReleaseFeatures(number))


def needs(dialect: ReleaseFeatures) -> list[object]:
    flags = {(program, flag) for program, flag in FLAGS if dialect.has_flag(program, flag)}
    each = [(name, dialect.wants_certificate(name), dialect.fixed_ports(name)) for name in BINARIES]
    return [flags, each, dialect.crds, dialect.kueue_topology, dialect.search_budgets]


@pytest.mark.parametrize("text", ["", "commit 0123456789ab", "v0.0.0-20260101000000-abcdef012345"])
def test_a_commit_is_no_release(text: str) -> None:
    assert features_of(text) is None
    assert features_of(f"{text} v0.13.4 (by its folder's name)") == ReleaseFeatures((0, 13, 4))


def test_the_message_of_a_stale_gang_differs_between_releases() -> None:
    until_8_4 = "Workload doesn't have the minimum required number of pods (2), evicting remaining pod: a/b"
    since = "Workload doesn't meet the minimum required number of pods (2), evicting remaining pod: a/b"
    assert (
        messages.parse_eviction(until_8_4)
        == messages.parse_eviction(since)
        == EvictionCondition("stalegangeviction", "")
    )


TOPOLOGY = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "rows"},
    "spec": {"levels": [{"nodeLabel": "row", "alias": "r"}, {"nodeLabel": "kubernetes.io/hostname"}]},
}


def test_a_topology_in_kueues_words() -> None:
    assert kueue_topology(TOPOLOGY) == {
        "apiVersion": "kueue.x-k8s.io/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "rows"},
        "spec": {"levels": [{"nodeLabel": "row"}, {"nodeLabel": "kubernetes.io/hostname"}]},
    }


def test_topologies_stay_unchanged_if_kai_has_its_own_kind() -> None:
    assert translate_topologies([TOPOLOGY], EmbeddedCluster()) == [(TOPOLOGY,)]


@pytest.mark.parametrize(
    ("number", "over"),
    [
        (LAST, []),
        ((0, 14, 1), ["minSubGroup"]),
        ((0, 14, 0), ["kai.scheduler/batch-min-member", "minSubGroup"]),
        (FIRST, ["kai.scheduler/topology", "kai.scheduler/batch-min-member", "subGroups", "minSubGroup"]),
    ],
)
def test_fields_that_an_older_release_ignores(number: VersionNumber, over: list[str]) -> None:
    job = {
        "kind": "Job",
        "metadata": {"name": "j", "annotations": {"kai.scheduler/batch-min-member": "4"}},
        "spec": {
            "template": {"metadata": {"annotations": {"kai.scheduler/topology": "rows"}}, "spec": {"containers": []}}
        },
    }
    group = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"queue": "a", "subGroups": [], "minSubGroup": 1}}
    dialect = ReleaseFeatures(number)
    assert {*dialect.ignored_words(job), *dialect.ignored_words(group)} == set(over)
