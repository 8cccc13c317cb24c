"""Fields that decide in a cluster and that nothing in an embedded lab reads: told when they are applied, few and true."""

from __future__ import annotations

import re

import pytest

from kailab.lab.unknown_fields import warn_unread_fields
from kailab.model.kinds import KINDS
from kailab.model.manifests import load_texts
from kailab.model.validation import core
from kailab.model.validation import core as operator_fields


def _said(text: str) -> list[str]:
    return [str(one) for one in warn_unread_fields(load_texts([("work.yaml", text)], validated=False))]


def _one(api_version: str, kind: str, spec: str) -> list[str]:
    return _said(f"{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: x}}, spec: {spec}}}")


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "field"),
    [
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "{failurePolicy: {rules: [{action: RestartJob}]}}", "spec.failurePolicy.rules[0].action"),
        ("ray.io/v1", "RayCluster", "{enableInTreeAutoscaling: true}", "spec.enableInTreeAutoscaling"),
        ("kubeflow.org/v1", "PyTorchJob", "{runPolicy: {managedBy: kueue.x-k8s.io/multikueue}}", "spec.runPolicy.managedBy"),
        ("v1", "PersistentVolumeClaim", "{accessModes: [ReadWriteOncePod]}", "spec.accessModes[0]"),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", "{sparkConf: {spark.executor.instances: 9}}", "spec.sparkConf[spark.executor.instances]"),
        ("apps/v1", "StatefulSet", "{volumeClaimTemplates: [{spec: {accessModes: [ReadWriteOncePod]}}]}", "spec.volumeClaimTemplates[0].spec.accessModes[0]"),
        ("apps/v1", "StatefulSet", "{updateStrategy: {rollingUpdate: {maxUnavailable: 2}}}", "spec.updateStrategy.rollingUpdate.maxUnavailable"),
        ("v1", "Pod", "{resources: {requests: {cpu: 4}}, containers: [{name: a, image: x}]}", "spec.resources"),
        ("batch/v1", "Job", "{template: {spec: {readinessGates: [{conditionType: a/b}], containers: [{name: a, image: x}]}}}", "spec.template.spec.readinessGates"),
    ],
)  # fmt: skip
def test_a_field_that_decides_in_a_cluster_is_said_not_to_be_read(
    api_version: str, kind: str, spec: str, field: str
) -> None:
    (one,) = _one(api_version, kind, spec)
    assert f"{kind}/x: {field}: kailab does not read it; in a cluster " in one


@pytest.mark.parametrize(
    ("api_version", "kind", "spec"),
    [
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "{managedBy: jobset.sigs.k8s.io/jobset-controller, failurePolicy: {maxRestarts: 3}}"),
        ("ray.io/v1", "RayCluster", "{enableInTreeAutoscaling: false, rayVersion: 2.9.0}"),
        ("ray.io/v1", "RayJob", "{entrypoint: python x.py, runtimeEnvYAML: a, backoffLimit: 0}"),
        ("v1", "PersistentVolumeClaim", "{accessModes: [ReadWriteOnce], volumeName: ''}"),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", "{restartPolicy: {type: Never}, sparkConf: {spark.eventLog.enabled: 'true'}}"),
        ("v1", "Pod", "{volumes: [{name: v, hostPath: {path: /data}}, {name: e, emptyDir: {}}], containers: [{name: a, image: x}]}"),
    ],
)  # fmt: skip
def test_what_is_ordinary_or_says_nothing_is_no_notice(api_version: str, kind: str, spec: str) -> None:
    assert _one(api_version, kind, spec) == []


def test_what_fields_of_a_kind_would_do_is_told_once_for_all_its_objects() -> None:
    text = "\n---\n".join(
        f"{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: c{number}}}, spec: {{accessModes: [ReadWriteOncePod]}}}}"
        for number in range(3)
    )
    assert len(_said(text)) == 1


def _fields(kind: str) -> set[str]:
    known = KINDS[kind]
    versions = [f"{known.group}/{version}" if known.group else version for version in known.versions]
    definitions = [operator_fields.operator_definition(version, known.kind) for version in versions]
    types = [known.schema] if known.schema else [definition.type for definition in definitions if definition]
    return set().union(*(_below(type, "", set()) for type in types))


def _below(type: str, path: str, above: set[str]) -> set[str]:
    found: set[str] = set()
    bare = type.strip("[]{}")
    if bare in core.SCALARS or type[0] == "=" or bare in above:
        return found
    for name, of in operator_fields.operator_field_types(bare).items():
        at = f"{path}.{name}".removeprefix(".")
        found.add(at)
        if of.strip("[]{}") == "any":
            found.add(f"{at}.")  # whatever is below it
        found |= _below(of, f"{at}.*" if of[0] in "[{" else at, above | {bare})
    return found


def test_each_field_that_is_said_not_to_be_read_is_one_that_its_kind_has() -> None:
    """Steps stand on their own: Argo's definition has an object where a workflow has a list."""
    other_versions = {"spec.templates.*.steps.*.*.when"}
    for key, kind in KINDS.items():
        there = _fields(key) if kind.unread else set()
        for field in kind.unread:
            path = ".".join(re.sub(r".*[./].*", "KEY", step) for step in field.steps).partition(".KEY")[0]
            path = path.removesuffix(".*")
            if path not in other_versions:
                below_anything = any(path.startswith(at) for at in there if at.endswith("."))
                assert path in there or below_anything, (key, path)
