"""Knative Service: a Revision for each template, each run by a Deployment of its minimum scale. There is no traffic here."""

from __future__ import annotations

from kailab.model.labels import KNATIVE_MIN_SCALE
from kailab.model.objects import (
    Object,
    annotations_of,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    status_of,
    uid_of,
)
from kailab.model.quantities import parse_count
from kailab.workloads.apps import TEMPLATE, template_hash
from kailab.workloads.controller import Controller

PREFIX = "serving.knative.dev/"


class KnativeController(Controller):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, name = self._bench, name_of(owner)
        template = owner["spec"]["template"]
        digest = template_hash(template)
        revisions = bench.owned(owner, "Revision")
        # By an annotation with the template's hash, because revisions are named by generations, which other changes increase too.
        current = next((revision for revision in revisions if annotations_of(revision).get(TEMPLATE) == digest), None)
        if current is None:
            generation = metadata_of(owner)["generation"]
            labels = {
                **labels_of(template),
                PREFIX + "service": name,
                PREFIX + "configuration": name,
                PREFIX + "configurationGeneration": str(generation),
            }
            current = bench.create(owner, "Revision", {
                "metadata": {"name": name_of(template) or f"{name}-{generation:05d}", "labels": labels,
                             "annotations": {**annotations_of(template), TEMPLATE: digest}},
                "spec": template.get("spec") or {},
            })  # fmt: skip
            if current is None:
                return
        revision = name_of(current)
        deployment = bench.find("Deployment", (namespace_of(owner), f"{revision}-deployment"))
        if deployment is None:
            deployment = self._deploy(owner, current, template)
        wanted = deployment["spec"]["replicas"] if deployment else 1
        ready = status_of(deployment or {}).get("availableReplicas", 0) >= wanted
        if ready:  # old revisions go once the new one is ready
            bench.delete("Revision", *(old for old in revisions if uid_of(old) != uid_of(current)))
        types = ("ConfigurationsReady", "Ready", "RoutesReady")
        self.set_status(
            owner,
            *((type, ready, "" if ready else "RevisionMissing", "") for type in types),
            latestCreatedRevisionName=revision,
            **({"latestReadyRevisionName": revision} if ready else {}),
            observedGeneration=metadata_of(owner)["generation"],
        )

    def _deploy(self, owner: Object, revision: Object, template: Object) -> Object | None:
        name = name_of(revision)
        scale = {**annotations_of(owner), **annotations_of(template)}.get(KNATIVE_MIN_SCALE, "1")
        labels = {
            **labels_of(template),
            "app": labels_of(template).get("app", name),
            PREFIX + "service": name_of(owner),
            PREFIX + "configuration": name_of(owner),
            PREFIX + "revision": name,
            PREFIX + "revisionUID": uid_of(revision),
        }
        pod_spec = {
            k: v for k, v in (template.get("spec") or {}).items() if k not in ("containerConcurrency", "timeoutSeconds")
        }
        pod_spec["containers"] = [
            {**c, "name": c.get("name") or "user-container"} for c in pod_spec.get("containers") or ()
        ]
        annotations = dict(annotations_of(template))
        return self._bench.create(revision, "Deployment", {
            "metadata": {"name": f"{name}-deployment", "labels": labels},
            "spec": {
                # At least 1, because there is no traffic that would scale the service up from 0.
                "replicas": max(parse_count(scale), 1),
                "selector": {"matchLabels": {PREFIX + "revisionUID": uid_of(revision)}},
                "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod_spec},
            },
        })  # fmt: skip


def annotate_newest_revision(owner: Object, revisions: list[Object]) -> Object:
    """The newest revision of a service, annotated as made from the service's present template, here or elsewhere."""
    newest = max(revisions, key=lambda revision: (str(metadata_of(revision)["creationTimestamp"]), name_of(revision)))
    notes = {**annotations_of(newest), TEMPLATE: template_hash(owner["spec"]["template"])}
    return {**newest, "metadata": {**metadata_of(newest), "annotations": notes}}
