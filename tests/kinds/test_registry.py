"""The registry of kinds: what it accepts and refuses, and that looking a kind up imports no controller."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from checks.fuzzing.odd_seeds import SEEDS
from kailab.errors import InputError
from kailab.evidence.redaction import keeps_label
from kailab.model import kinds
from kailab.model.kind import Kind, check_form
from kailab.model.kinds import KINDS, kind_key, part, register, registered_kinds
from kailab.scheduler.service.manifests import scheduler_manifests

WIDGET = Kind(group="example.com", kind="Widget", versions=("v2", "v1"), plural="widgets", short=("wd",))


def widget(**fields: object) -> Kind:
    return Kind(**{**{name: getattr(WIDGET, name) for name in ("group", "kind", "versions", "plural")}, **fields})


def test_a_kind_is_known_by_all_its_names_while_it_is_registered() -> None:
    with registered_kinds(WIDGET) as (known,):
        assert known.key == "Widget"
        for name in ("widgets", "widget", "wd", "widgets.example.com", "widget.v1.example.com", "Widget"):
            assert kinds.resolve(name) == "Widget"
        assert kind_key({"apiVersion": "example.com/v1", "kind": "Widget"}) == "Widget"
        assert kinds.api_version_of("Widget") == "example.com/v2"
    assert "Widget" not in KINDS
    assert kind_key({"apiVersion": "example.com/v1", "kind": "Widget"}) == "Widget.example.com"
    with pytest.raises(InputError, match="no kind is called"):
        kinds.resolve("widgets")


def test_a_name_that_another_kind_has_stays_that_kinds() -> None:
    volcano = widget(group="batch.volcano.sh", kind="Job", plural="jobs", short=("po",))
    with registered_kinds(volcano) as (known,):
        assert known.key == "Job.batch.volcano.sh"
        assert kinds.resolve("jobs") == "Job"
        assert kinds.resolve("po") == "Pod"
        assert kinds.resolve("jobs.batch.volcano.sh") == "Job.batch.volcano.sh"


def test_a_kind_registered_twice_is_refused() -> None:
    with (
        registered_kinds(WIDGET),
        pytest.raises(InputError, match=r"kind Widget: is registered already in the group example\.com"),
    ):
        register(widget(versions=("v9",)))
    with pytest.raises(InputError, match="kind Pod: is registered already in the core group"):
        register(Kind(kind="Pod", versions=("v1",), plural="pods"))
    with registered_kinds(WIDGET), pytest.raises(InputError, match=r"widgets\.example\.com is the kind Widget already"):
        register(widget(kind="Gadget"))
    with pytest.raises(InputError, match="the key Pod is another kind's already"):
        register(widget(key="Pod"))
    assert "Widget" not in KINDS


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("kind", "widget", "a name such as JobSet"),
        ("group", "Example", "an API group"),
        ("plural", "", "a plural in lower case"),
        ("versions", (), "at least one"),
        ("versions", "v1", "versions such as"),
        ("short", ("W D",), "short names"),
        ("immutable", ("spec..x",), "paths of fields"),
        ("watches", [1], "kinds such as"),
        ("controller", "not a place", "'module:name'"),
        ("controller", 7, "a function or class"),
        ("grouping", "x", "'module:name'"),
        ("columns", ("NAME",), "a tuple of kailab.model.kind.Column"),
    ],
)
def test_a_malformed_kind_is_refused_with_the_field(field: str, value: object, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        register(widget(**{field: value}))
    assert expected in str(caught.value)
    assert f": {field}: " in str(caught.value)
    assert "Widget" not in KINDS


def test_what_is_no_kind_is_refused() -> None:
    with pytest.raises(InputError, match="is not a kind"):
        register({"kind": "Widget"})  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["kailab.nowhere:X", "kailab.model.kinds:nothing"])
def test_a_part_that_is_not_where_it_is_said_to_be(place: str) -> None:
    with (
        registered_kinds(widget(controller=place)),
        pytest.raises(InputError, match=f"kind Widget: controller: '{place}'"),
    ):
        part("Widget", "controller")


@pytest.mark.parametrize("key", sorted(KINDS))
def test_every_kind_of_kailabs_own_is_well_formed_and_has_its_parts(key: str) -> None:
    assert check_form(KINDS[key]).key == key
    for name in ("defaults", "check", "shape", "advice", "controller", "grouping", "columns"):
        part(key, name)


def test_every_kind_with_a_controller_is_tried_with_odd_manifests() -> None:
    """``python -m checks odd`` begins with an object of each kind that something acts on."""
    tried = {kind_key(obj) for objects in SEEDS.values() for obj in objects}
    assert {key for key, kind in KINDS.items() if kind.controller} <= tried | {
        "TFJob",
        "XGBoostJob",
        "JAXJob",
        "PaddleJob",
    }


def test_knowing_kinds_loads_no_controller_and_no_grouping() -> None:
    code = (
        "import sys; from kailab.model.kinds import KINDS, resolve; assert len(KINDS) > 60; resolve('jobsets');"
        "print([name for name in sys.modules if name.startswith(('kailab.workloads', 'kailab.grouping', 'kailab.cli'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_kind_that_is_registered_may_be_read_by_the_scheduler() -> None:
    told = "apiGroups: [example.com]\n    resources: [widgets]"
    assert told not in scheduler_manifests("kai-scheduler", "registry.example.com/kailab:1")
    with registered_kinds(WIDGET):
        assert told in scheduler_manifests("kai-scheduler", "registry.example.com/kailab:1")
    with registered_kinds(widget(owns_pods=False)):
        assert told not in scheduler_manifests("kai-scheduler", "registry.example.com/kailab:1")


def test_versions_of_kais_crds_stand_in_one_module() -> None:
    """Code that writes one of KAI's objects takes its version from the kind."""
    kai = {kind.api_version for kind in KINDS.values() if kind.group in ("scheduling.run.ai", "kai.scheduler")}
    told = re.compile("|".join(map(re.escape, sorted(kai, key=len, reverse=True))))
    package = Path(kinds.__file__).parents[1]
    found = {str(file.relative_to(package)) for file in package.rglob("*.py") if told.search(file.read_text("utf-8"))}
    assert found == set()


def test_evidence_keeps_the_labels_that_a_kind_names_while_it_is_registered() -> None:
    assert not keeps_label("example.com/shard")
    with registered_kinds(widget(label_domains=("example.com",))):
        assert keeps_label("example.com/shard")
        assert keeps_label("sub.example.com/shard")
        assert not keeps_label("other.org/shard")
    assert not keeps_label("example.com/shard")


@pytest.mark.parametrize(
    "label",
    [
        "ray.io/cluster",
        "training.kubeflow.org/job-name",
        "serving.knative.dev/service",
        "grove.io/podclique",
        "workflows.argoproj.io/workflow",
    ],
)
def test_evidence_keeps_the_labels_of_operators(label: str) -> None:
    assert keeps_label(label)
