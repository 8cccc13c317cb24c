"""Knative Service: a Revision for each template, each run by a Deployment of its minimum scale. There is no traffic here."""

from __future__ import annotations

from kailab.model.objects import Object, annotations_of, is_terminating, status_of
from kailab.model.quantities import parse_count
from kailab.workloads.apps import template_hash
from kailab.workloads.controller import Controller, make_condition, set_conditions

PREFIX = "serving.knative.dev/"
MIN_SCALE = "autoscaling.knative.dev/min-scale"
TEMPLATE = "kailab.dev/template"


class KnativeController(Controller):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, name = self._bench, owner["metadata"]["name"]
        template = owner["spec"]["template"]
        digest = template_hash(template)
        revisions = bench.owned(owner, "Revision")
        # By an annotation with the template's hash, because revisions are named by generations, which other changes increase too.
        current = next((r for r in revisions if r["metadata"]["annotations"].get(TEMPLATE) == digest), None)
        meta = template.get("metadata") or {}
        if current is None:
            generation = owner["metadata"]["generation"]
            labels = {
                **(meta.get("labels") or {}),
                PREFIX + "service": name,
                PREFIX + "configuration": name,
                PREFIX + "configurationGeneration": str(generation),
            }
            current = bench.create(owner, "Revision", {
                "metadata": {"name": meta.get("name") or f"{name}-{generation:05d}", "labels": labels,
                             "annotations": {**(meta.get("annotations") or {}), TEMPLATE: digest}},
                "spec": template.get("spec") or {},
            })  # fmt: skip
            if current is None:
                return
        revision = current["metadata"]["name"]
        deployment = bench.find("Deployment", (owner["metadata"]["namespace"], f"{revision}-deployment"))
        if deployment is None:
            deployment = self._deploy(owner, current, template)
        status = (deployment or {}).get("status") or {}
        wanted = deployment["spec"]["replicas"] if deployment else 1
        ready = status.get("availableReplicas", 0) >= wanted
        if ready:  # old revisions go once the new one is ready
            for old in revisions:
                if old["metadata"]["uid"] != current["metadata"]["uid"]:
                    bench.delete("Revision", old)
        marks = [
            make_condition(type, str(ready), "" if ready else "RevisionMissing", "", bench.stamp())
            for type in ("ConfigurationsReady", "Ready", "RoutesReady")
        ]
        latest = {"latestReadyRevisionName": revision} if ready else {}
        bench.set_status(
            self.kind,
            owner,
            latestCreatedRevisionName=revision,
            **latest,
            conditions=set_conditions(status_of(owner).get("conditions"), *marks),
            observedGeneration=owner["metadata"]["generation"],
        )

    def _deploy(self, owner: Object, revision: Object, template: Object) -> Object | None:
        meta, name = template.get("metadata") or {}, revision["metadata"]["name"]
        notes = {**annotations_of(owner), **(meta.get("annotations") or {})}
        scale = notes.get(MIN_SCALE, "1")
        labels = {
            **(meta.get("labels") or {}),
            "app": (meta.get("labels") or {}).get("app", name),
            PREFIX + "service": owner["metadata"]["name"],
            PREFIX + "configuration": owner["metadata"]["name"],
            PREFIX + "revision": name,
            PREFIX + "revisionUID": revision["metadata"]["uid"],
        }
        pod_spec = {
            k: v for k, v in (template.get("spec") or {}).items() if k not in ("containerConcurrency", "timeoutSeconds")
        }
        pod_spec["containers"] = [
            {**c, "name": c.get("name") or "user-container"} for c in pod_spec.get("containers") or ()
        ]
        inner_notes = dict(meta.get("annotations") or {})
        return self._bench.create(revision, "Deployment", {
            "metadata": {"name": f"{name}-deployment", "labels": labels},
            "spec": {
                # At least 1, because there is no traffic that would scale the service up from 0.
                "replicas": max(parse_count(scale), 1),
                "selector": {"matchLabels": {PREFIX + "revisionUID": revision["metadata"]["uid"]}},
                "template": {"metadata": {"labels": labels, "annotations": inner_notes}, "spec": pod_spec},
            },
        })  # fmt: skip


def annotate_newest_revision(owner: Object, revisions: list[Object]) -> Object:
    """The newest revision of a service, annotated as made from the service's present template, here or elsewhere."""
    newest = max(revisions, key=lambda one: (str(one["metadata"]["creationTimestamp"]), one["metadata"]["name"]))
    notes = {**annotations_of(newest), TEMPLATE: template_hash(owner["spec"]["template"])}
    return {**newest, "metadata": {**newest["metadata"], "annotations": notes}}
