from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kailab.errors import Where
from kailab.model.manifests import load_text
from kailab.model.objects import share_of
from kailab.model.queues import check_queue_tree, check_workload_queues
from kailab.model.validation import validate


def test_a_sound_tree_has_nothing_to_say(make):
    queue = make["queue"]
    tree = [queue("root"), queue("a", "root", gpu=(8, -1, 1)), queue("b", "root", gpu=(8, -1, 1))]
    assert check_queue_tree(tree) == ([], [])


def test_errors(make):
    queue = make["queue"]
    ring = [queue("a", "b"), queue("b", "c"), queue("c", "a"), queue("d", "a"), queue("e", "e")]
    errors, _ = check_queue_tree(ring)
    assert [error.message for error in errors] == [
        "the queues form a cycle: a -> b -> c -> a; one of them needs another parent or none",
        "a queue can't be its own parent",
    ]
    errors, _ = check_queue_tree([queue("a"), queue("a")])
    assert "two queues of this name" in str(errors[0])


def test_quotas_beyond_the_parent_are_warnings(make):
    queue = make["queue"]
    tree = [queue("root", gpu=(10, -1, 1)), queue("a", "root", gpu=(12, -1, 1)), queue("b", "root", gpu=(-1, -1, 1))]
    errors, warnings = check_queue_tree(tree)
    assert errors == []
    assert [w.message for w in warnings] == [
        "12 is beyond the 10 GPUs of its parent 'root'",
        "unlimited is beyond the 10 GPUs of its parent 'root'",
    ]
    tree = [queue("root", gpu=(10, -1, 1)), queue("a", "root", gpu=(5.5, -1, 1)), queue("b", "root", gpu=(5, -1, 1))]
    assert "quotas of 10.5 GPUs, more than the 10" in check_queue_tree(tree)[1][0].message


def test_warnings_of_manifests_name_file_and_line(make):
    text = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: a}\nspec:\n  parentQueue: gone\n"
    _, warnings = check_queue_tree(load_text(text, "q.yaml"))
    assert str(warnings[0]).startswith("q.yaml:5: Queue/a: spec.parentQueue: there is no queue 'gone'")


def test_queues_that_work_names(make):
    queue = make["queue"]
    tree = [queue("root"), queue("a", "root")]
    used = [(name, Where(object=f"Job/{name}")) for name in ("a", "root", "b")]
    found = [str(warning) for warning in check_workload_queues(used, tree)]
    assert [text[:8] for text in found] == ["Job/root", "Job/b: t"]
    assert "only queues without any schedule" in found[0]


names = st.sampled_from("abcdefgh")


@given(st.dictionaries(names, st.one_of(st.just(""), names)))
def test_a_cycle_is_told_exactly_where_there_is_one(parents):
    tree = [
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": n}, "spec": {"parentQueue": p}}
        for n, p in parents.items()
    ]

    def reaches_itself(name):
        at = parents[name]
        for _ in parents:
            if at == name:
                return True
            at = parents.get(at, "")
        return False

    rings = {name for name in parents if reaches_itself(name)}
    errors, _ = check_queue_tree(tree)
    assert bool(errors) == bool(rings)
    assert all(error.where.object.removeprefix("Queue/") in rings for error in errors)


def test_negative_amounts_are_refused_when_new_and_count_as_for_kai(make):
    queue = make["queue"]("a", gpu=(-2, -1, -1))
    queue["spec"]["resources"]["memory"] = {"quota": -1, "limit": -3, "overQuotaWeight": 1}
    faults = validate(queue, "Queue")
    assert [field.rpartition("resources.")[2] for field, _ in faults] == [
        "gpu.quota",
        "gpu.overQuotaWeight",
        "memory.limit",
    ]
    assert validate(queue, "Queue", stored=queue) == []
    assert dict(share_of(queue)) == {"quota": 0, "limit": -1, "overQuotaWeight": 0}
    assert share_of(queue, "memory")["limit"] == -1
