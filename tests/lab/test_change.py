"""Changes as data: read, checked, told again, and carried out."""

from __future__ import annotations

import pytest

from kailab.errors import InputError, Where
from kailab.lab import Lab
from kailab.lab.change import Advance, Apply, Delete, Patch, carry_out, read_changes
from kailab.scheduler.observers import Observer

QUEUE = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "a"}, "spec": {}}


def test_all_forms_are_read_and_told_again():
    data = [
        {"apply": [QUEUE]},
        {"apply": [QUEUE], "namespace": "web"},
        {"patch": {"kind": "Queue", "name": "a", "namespace": "default", "patch": {"spec": {"priority": 5}}}},
        {
            "patch": {
                "kind": "Node",
                "name": "n",
                "namespace": "default",
                "subresource": "status",
                "patch": {"status": {"conditions": []}},
            }
        },
        {"delete": {"kind": "Job", "name": "x", "namespace": "web"}},
        {"advance": 600.0},
    ]
    changes = read_changes(data)
    assert [type(change) for change in changes] == [Apply, Apply, Patch, Patch, Delete, Advance]
    assert [change.data() for change in changes] == data
    assert read_changes([change.data() for change in changes]) == changes


def test_a_bare_object_counts_as_applied_and_default_is_the_namespace():
    assert read_changes([QUEUE]) == (Apply((QUEUE,)),)
    assert read_changes([{"delete": {"kind": "Job", "name": "x"}}]) == (Delete("Job", "x", "default"),)


@pytest.mark.parametrize(
    ("data", "where", "what"),
    [
        ({}, "", "expected a list of changes"),
        (["wait"], "[0]", "expected a change"),
        ([{}], "[0]", "expected exactly one of"),
        ([{"advance": 1, "delete": {}}], "[0]", "expected exactly one of"),
        ([{"advance": 1}, {"advance": -1}], "[1].advance", "seconds (0 or more)"),
        ([{"advance": True}], "[0].advance", "seconds"),
        ([{"advance": float("inf")}], "[0].advance", "seconds"),
        ([{"advance": 1, "why": "x"}], "[0]", "unknown field beside advance: why"),
        ([{"apply": "x.yaml"}], "[0].apply", "list of objects"),
        ([{"delete": {"kind": "Job"}}], "[0].delete.name", "expected text"),
        ([{"delete": {"kind": "Job", "name": "x", "force": True}}], "[0].delete", "unknown field: force"),
        (
            [{"patch": {"kind": "Job", "name": "x", "subresource": "scale", "patch": {}}}],
            "[0].patch.subresource",
            "expected status",
        ),
        ([{"patch": {"kind": "Job", "name": "x"}}], "[0].patch.patch", "JSON merge patch"),
    ],
)
def test_what_is_no_change_is_refused_with_its_place(data, where, what):
    with pytest.raises(InputError) as refused:
        read_changes(data, Where(file="steps.json"))
    assert str(refused.value).startswith(": ".join(part for part in ("steps.json", where) if part) + ": ")
    assert what in str(refused.value)


def test_changes_are_carried_out_in_order_settling_after_each(queue, job):
    with Lab.open("lesson") as lab:
        carry_out(
            lab,
            read_changes(
                [
                    {"apply": [queue("a", 4, limit=4)]},
                    job("first", "a", 4),
                    job("second", "a", 2),
                    {"patch": {"kind": "Queue", "name": "a", "patch": {"spec": {"resources": {"gpu": {"limit": 5}}}}}},
                    {"delete": {"kind": "Job", "name": "first"}},
                    {"advance": 10},
                ]
            ),
        )
        assert {row.app for row in lab.picture().rows if row.phase == "Running"} == {"second"}
        assert lab.get("Queue", "a")["spec"]["resources"]["gpu"]["limit"] == 5


class Steps(Observer):
    def __init__(self):
        self.seen = []

    def on_step(self, operation, detail="", **data):
        self.seen.append(operation)


def test_changes_that_one_command_makes_settle_together(queue, job):
    steps = Steps()
    with Lab.open("lesson", observers=[steps]) as lab:
        lab.apply([queue("a", 4), queue("b", 4), job("first", "a", 1), job("second", "a", 1)])
        lab.settle()
        steps.seen.clear()

        def limited(name, limit):
            return {
                "patch": {"kind": "Queue", "name": name, "patch": {"spec": {"resources": {"gpu": {"limit": limit}}}}}
            }

        doomed = [{"delete": {"kind": "Job", "name": name}} for name in ("first", "second")]
        carry_out(lab, read_changes([*doomed, limited("a", 5), limited("b", 5), limited("a", 6)]))
        assert steps.seen == ["delete", "delete", "settle", "patch", "patch", "settle", "patch", "settle"]


def test_changes_of_one_form_are_made_together_where_asked_for(queue, job):
    steps = Steps()
    with Lab.open("lesson", observers=[steps]) as lab:
        lab.apply([queue("a", 4), job("first", "a", 1), job("second", "a", 1)])
        lab.settle()
        steps.seen.clear()
        doomed = [{"delete": {"kind": "Job", "name": name}} for name in ("first", "second")]
        carry_out(lab, read_changes([*doomed, job("third", "a", 1), {"advance": 10}]), together=True)
        assert steps.seen == ["delete", "delete", "settle", "apply", "settle", "advance", "settle"]
        assert {row.app for row in lab.picture().rows} == {"third"}


def test_what_the_lab_refuses_is_told():
    with Lab.open("lesson") as lab, pytest.raises(InputError, match="'gone' not found"):
        carry_out(lab, read_changes([{"delete": {"kind": "Job", "name": "gone"}}]))
