"""GPUs by model and the work that is short of them, in random labs: every screen says what the objects say."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kailab.advice.audit import audit
from kailab.advice.findings import FindingCode
from kailab.explain.questions import ask
from kailab.lab import Lab
from kailab.model.objects import Object, labels_of, name_of, namespace_of, spec_of
from tests.explain.manifests import fleet, job, queue

MODELS = ("H100", "A100", "L4")
PRODUCT = "nvidia.com/gpu.product"
TAINT = {"key": "team", "value": "x", "effect": "NoSchedule"}


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Object], list[Object], list[str]]:
    """Pools, jobs and cordoned nodes."""
    pools = [
        {"gpuModel": model, "count": draw(st.integers(1, 2)), "taints": [TAINT] if draw(st.booleans()) else []}
        for model in MODELS
    ]
    jobs = []
    for number in range(draw(st.integers(1, 6))):
        models = draw(st.sampled_from([(), ("H100",), ("A100",), ("H100", "L4")]))
        spec: dict[str, Any] = {}
        if len(models) == 1:
            spec["nodeSelector"] = {PRODUCT: models[0]}
        elif models:
            terms = [{"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": list(models)}]}]
            required = {"nodeSelectorTerms": terms}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        if draw(st.booleans()):
            spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
        pods, each = draw(st.integers(1, 4)), draw(st.integers(1, 4))
        jobs.append(
            job(f"j{number}", draw(st.sampled_from(["red", "blue"])), pods, each, gang=draw(st.booleans()), **spec)
        )
    cordoned = draw(st.lists(st.sampled_from(["p0-0", "p1-0", "p2-0"]), max_size=2, unique=True))
    return pools, jobs, cordoned


def requested(pod: Object) -> int:
    return sum(int(container["resources"]["limits"]["nvidia.com/gpu"]) for container in pod["spec"]["containers"])


def takes(pod: Object, node: Object) -> bool:
    """By its selector, affinity and tolerations, read apart from the engine."""
    spec, model = pod["spec"], labels_of(node)[PRODUCT]
    if any(labels_of(node).get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    terms = required.get("nodeSelectorTerms") or []
    if terms and model not in terms[0]["matchExpressions"][0]["values"]:
        return False
    tainted = any(taint["key"] == "team" for taint in spec_of(node).get("taints") or ())
    return not tainted or bool(spec.get("tolerations"))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_all_screens_say_what_the_objects_say(world: tuple[list[Object], list[Object], list[str]]) -> None:
    pools, jobs, cordoned = world
    with Lab.open(fleet(*pools)) as lab:
        lab.apply([queue("red", quota=8), queue("blue", quota=4)])
        for work in jobs:
            lab.apply([work])
            lab.settle()
        for name in cordoned:
            lab.patch("Node", name, {"spec": {"unschedulable": True}})
        lab.settle()
        nodes, pods, picture = lab.get("Node"), lab.get("Pod", namespace=None), lab.picture()
        held = Counter[str]()
        for pod in pods:
            held[pod["spec"].get("nodeName", "")] += (
                requested(pod) if pod["status"].get("phase") in ("Pending", "Running") else 0
            )
        for model in MODELS:
            own = [node for node in nodes if labels_of(node)[PRODUCT] == model]
            use = picture.models[model]
            assert use.gpus == 4000 * len(own)
            assert use.used == 1000 * sum(held[name_of(node)] for node in own)
            free = {name_of(node): 4000 - 1000 * held[name_of(node)] for node in own}
            assert use.closed == sum(milli for name, milli in free.items() if name in cordoned)
            assert use.free == sum(milli for name, milli in free.items() if name not in cordoned)
        waiting: dict[str, list[Object]] = {}
        for pod in pods:
            if not pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
                waiting.setdefault(
                    f"{namespace_of(pod)}/{pod['metadata']['annotations']['pod-group-name']}", []
                ).append(pod)
        demands = {
            picture.present.podgroup(demand.podgroup): demand for demand in picture.model_demands if demand.podgroup
        }
        assert demands.keys() == waiting.keys()
        short = {name: shortage for shortage in picture.model_shortages for name in shortage.podgroups}
        for name, own in waiting.items():
            models = {labels_of(node)[PRODUCT] for node in nodes if takes(own[0], node)}
            assert set(demands[name].values) == models
            assert demands[name].gpus == 1000 * sum(map(requested, own))
            few = bool(models) and sum(picture.models[model].free for model in models) < demands[name].next
            others = sum(picture.models[model].free for model in MODELS if model not in models)
            assert (name in short) == (few and others > 0)
        findings = [finding for finding in audit(lab, picture).findings if finding.code is FindingCode.MODEL_FULL]
        assert {
            object_name
            for finding in findings
            for object_name in finding.objects
            if object_name.startswith("podgroup/")
        } == {f"podgroup/{name}" for name in short}
        for name in waiting:
            answer = ask(lab, "PodGroup", name.partition("/")[2], tried=False, picture=picture).data()
            told = answer.get("model_shortages", [])
            assert [one["others"] for one in told] == ([short[name].data()["others"]] if name in short else [])
