"""Fields that no kind has, told at once with what may have been meant."""

from __future__ import annotations

from pathlib import Path

from kailab.lab import Lab
from kailab.lab.unknown_fields import warn_unknown_fields
from kailab.model.manifests import load, load_texts

EXERCISES = Path(__file__).parents[2] / "exercises"


def told(text: str) -> list[str]:
    return [str(one) for one in warn_unknown_fields(load_texts([("work.yaml", text)]))]


def test_a_mistyped_field_of_a_container() -> None:
    text = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      schedulername: kai-scheduler
      restartPolicy: Never
      containers:
      - name: main
        image: x
        resource: {limits: {nvidia.com/gpu: 1}}
"""
    assert told(text) == [
        "work.yaml:7: Job/train: spec.template.spec.schedulername: there is no such field, so nothing acts on it; did you mean schedulerName?",
        "work.yaml:12: Job/train: spec.template.spec.containers[0].resource: there is no such field, so nothing acts on it; did you mean resources?",
    ]


def test_fields_of_kais_kinds() -> None:
    (one,) = told(
        "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: q}, spec: {resources: {gpu: {quotta: 1}}}}"
    )
    assert one.endswith("spec.resources.gpu.quotta: there is no such field, so nothing acts on it; did you mean quota?")
    (one,) = told("{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: q}, spec: {zzz: 1}}")
    assert one.endswith(
        "there are: displayName, parentQueue, preemptMinRuntime, priority, reclaimMinRuntime, resources"
    )


def test_fields_of_kinds_that_only_kais_operator_acts_on() -> None:
    shard = "{apiVersion: kai.scheduler/v1, kind: SchedulingShard, metadata: {name: s}, spec: %s}"
    (one,) = told(shard % "{nonsense: 1}")
    assert "spec.nonsense: there is no such field" in one
    (one,) = told(shard % "{plugins: {proportion: {enabeld: true}}}")
    assert one.endswith(
        "spec.plugins.proportion.enabeld: there is no such field, so nothing acts on it; did you mean enabled?"
    )
    (one,) = told(
        "{apiVersion: kai.scheduler/v1, kind: Config, metadata: {name: c}, spec: {bindr: {}, binder: {args: {}}}}"
    )
    assert one.endswith("spec.bindr: there is no such field, so nothing acts on it; did you mean binder?")
    assert told(shard % "{kValue: 0.5, plugins: {own: {arguments: {a: b}}}, queueDepthPerAction: {reclaim: 5}}") == []


def test_pods_are_looked_at_in_whatever_kind_they_are() -> None:
    text = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 1
      template: {spec: {nodeselector: {a: b}, containers: [{name: main, image: x}]}}
"""
    (one,) = told(text)
    assert (
        "spec.pytorchReplicaSpecs.Worker.template.spec.nodeselector: the training operator v1.9.4 has no such field"
        in one
    )


def test_a_template_is_no_object_of_its_own() -> None:
    pods = "template: {apiVersion: v1, metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: x}]}}"
    (one,) = told(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: w}, spec: {selector: {matchLabels: {a: b}}, "
        + pods
        + "}}"
    )
    assert "spec.template.apiVersion: there is no such field" in one
    (one,) = told(
        "{apiVersion: kubeflow.org/v1, kind: XGBoostJob, metadata: {name: w}, spec: {xgbReplicaSpecs: {Master: {"
        + pods
        + "}}}}"
    )
    assert "spec.xgbReplicaSpecs.Master.template.apiVersion: the training operator v1.9.4 has no such field" in one


def test_keys_of_mappings_are_nobodys_fields() -> None:
    assert (
        told(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {any: x}, annotations: {at: all}}, data: {what: ever}}"
        )
        == []
    )


def test_the_exercises_have_none() -> None:
    several = sorted(EXERCISES.glob("*/manifests/*.yaml"))
    assert len(several) > 100
    assert [str(one) for path in several for one in warn_unknown_fields(load(path))] == []


def test_a_lab_says_so(queue) -> None:
    with Lab.open() as lab:
        mistyped = {**queue("team", 4)}
        mistyped["spec"] = {**mistyped["spec"], "parentqueue": "org"}
        warnings = lab.apply(mistyped, validate="warn").warnings
    assert [one for one in warnings if "did you mean parentQueue?" in one]


def test_fields_of_operators_kinds() -> None:
    text = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js}
spec:
  replicatedJobs:
  - name: w
    replica: 3
    template: {spec: {parallelismm: 1, template: {spec: {containers: [{name: main, image: x}]}}}}
"""
    assert told(text) == [
        "work.yaml:7: JobSet/js: spec.replicatedJobs[0].replica: JobSet v0.12.0 has no such field, so nothing acts on it; did you mean replicas?",
        "work.yaml:8: JobSet/js: spec.replicatedJobs[0].template.spec.parallelismm: JobSet v0.12.0 has no such field, so nothing acts on it; "
        "did you mean parallelism?",
    ]
    (one,) = told("{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {backoffLimitt: 3}}")
    assert one.endswith(
        "spec.backoffLimitt: KubeRay v1.6.2 has no such field, so nothing acts on it; did you mean backoffLimit?"
    )


def test_fields_that_operators_have_for_every_role_are_known() -> None:
    text = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Worker: {replicas: 1, restartPolicyy: Never, template: {spec: {containers: [{name: main, image: x}]}}}
"""
    (one,) = told(text)
    assert "spec.pytorchReplicaSpecs.Worker.restartPolicyy: the training operator v1.9.4 has no such field" in one


def test_fields_that_only_other_versions_of_an_operator_have_are_those_that_are_read() -> None:
    text = "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: t}, spec: {labels: {a: b}, suspent: true}}"
    (one,) = told(text)
    assert "spec.suspent: " in one


def test_an_object_of_a_wrong_shape_has_no_unknown_fields() -> None:
    text = "{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {rayClusterSpec: {authOptions: 3}}}"
    assert told(text) == []


def test_fields_of_a_knative_service_that_no_pod_has_are_known() -> None:
    text = """\
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: web}
spec: {template: {spec: {containerConcurrency: 5, timeoutSeconds: 3, containers: [{image: x}]}}}
"""
    assert told(text) == []


def test_values_that_an_operator_refuses_are_told(queue) -> None:
    text = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  successPolicy: {operator: Some}
  startupPolicy: {startupPolicyOrder: AnyOrder}
  volumeClaimPolicies: [{templates: [], retentionPolicy: {whenDeleted: Keep}}]
  replicatedJobs:
  - {name: a, template: {spec: {template: {spec: {containers: [{name: main, image: x}]}}}}}
  - {name: b, dependsOn: [{name: a, status: Ready}], template: {spec: {template: {spec: {containers: [{name: main, image: x}]}}}}}
"""
    with Lab.open() as lab:
        values = [notice for notice in lab.apply(text).notices if "is not a value" in notice.message]
    assert {notice.where.field for notice in values} == {
        "spec.successPolicy.operator",
        "spec.volumeClaimPolicies[0].retentionPolicy.whenDeleted",
    }
    operator = next(notice for notice in values if notice.where.field.endswith("operator"))
    assert operator.message == "'Some' is not a value that JobSet v0.12.0 has; expected All or Any"
    assert operator.in_cluster == "the object is refused"


def test_an_object_that_changed_since_is_looked_at_again(queue) -> None:
    container = {"name": "main", "image": "x"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    with Lab.open() as lab:
        assert not [text for text in lab.apply(pod).warnings if "readinessGates" in text]
        pod["spec"]["readinessGates"] = [{"conditionType": "example.com/ready"}]
        assert [text for text in lab.apply({**pod, "metadata": {"name": "q"}}).warnings if "readinessGates" in text]


def test_fields_of_metadata_and_of_pods_where_a_definition_takes_anything() -> None:
    queue = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: q, lables: {a: b}}\nspec: {}"
    spark = (
        "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nmetadata: {name: s}\nspec:\n"
        "  {type: Scala, sparkVersion: 3.5.0, executor: {},\n"
        "   driver: {template: {spec: {nodeselector: {a: b}, containers: [{name: c, image: x}]}}}}"
    )
    found = "\n".join(told(f"{queue}\n---\n{spark}"))
    assert "Queue/q: metadata.lables: " in found
    assert "SparkApplication/s: spec.driver.template.spec.nodeselector: " in found
