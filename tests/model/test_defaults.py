from __future__ import annotations

import copy

from checks.fuzzing.odd_seeds import SEEDS
from kailab.model.defaults import apply_defaults, strip_nulls
from kailab.model.kinds import kind_key
from kailab.model.objects import Object
from kailab.model.validation import validate


def test_a_pod_gets_what_the_server_fills_in(make):
    spec = apply_defaults({"kind": "Pod", "spec": {"containers": []}}, "Pod")["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["terminationGracePeriodSeconds"] == 30


def test_limits_become_requests_where_there_are_none(make):
    resources = apply_defaults(make["pod"](), "Pod")["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "100m", "nvidia.com/gpu": 1}
    assert resources["limits"] == {"nvidia.com/gpu": 1}


def test_workloads_and_their_templates(make):
    assert apply_defaults(make["deployment"](replicas=3), "Deployment")["spec"]["replicas"] == 3
    spec = apply_defaults({"kind": "Deployment", "spec": {"template": {"spec": {}}}}, "Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["template"]["spec"]["restartPolicy"] == "Always"


def test_job_counts(make):
    def counts(**spec):
        filled = apply_defaults(make["job"](**spec), "Job")["spec"]
        return filled.get("parallelism"), filled.get("completions"), filled["backoffLimit"]

    assert counts() == (1, 1, 6)
    assert counts(parallelism=4) == (4, None, 6)
    assert counts(completions=4, backoffLimit=0) == (1, 4, 0)


def test_nothing_is_changed_in_place_and_the_rest_is_shared(make):
    obj = make["job"]()
    before = copy.deepcopy(obj)
    filled = apply_defaults(obj, "Job")
    assert obj == before
    assert filled["metadata"] is obj["metadata"]


def test_defaulting_twice_changes_nothing(make):
    for kind in ("pod", "deployment", "job"):
        obj = make[kind]()
        once = apply_defaults(obj, obj["kind"])
        assert apply_defaults(once, obj["kind"]) is once


def test_wrong_shapes_are_left_to_validation():
    for kind in ("Pod", "Deployment", "Job", "CronJob", "JobSet", "Namespace", "PriorityClass"):
        for spec in (3, None, [], "x", {"template": 3, "containers": 4, "jobTemplate": {"spec": 5}}):
            apply_defaults({"kind": kind, "spec": spec, "status": 3}, kind)


def test_nulls_are_as_good_as_absent():
    assert strip_nulls({"a": None, "b": {"c": None, "d": [1, {"e": None}, None]}}) == {"b": {"d": [1, {}, None]}}
    kept = {"a": [1, {"b": "c"}]}
    assert strip_nulls(kept) is kept


def test_defaults_make_no_fault_in_a_valid_object():
    # Admission relies on it: it does not validate again what was valid when it was read.
    def without(spec, field):
        return {key: value for key, value in spec.items() if key != field}

    for objects in SEEDS.values():
        obj: Object = objects[-1]
        for field in ("", *(obj.get("spec") or {})):
            changed = {**obj, "spec": without(obj["spec"], field)} if field else obj
            if not validate(changed, kind_key(obj)):
                assert validate(apply_defaults(changed, kind_key(obj)), kind_key(obj)) == [], changed
