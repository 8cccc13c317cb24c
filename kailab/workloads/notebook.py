"""Kubeflow's Notebook: a StatefulSet of one pod, or of none while an annotation stops it. Source: Kubeflow's notebook-controller
(generateStatefulSet)."""

from __future__ import annotations

from kailab.model.objects import Object, annotations_of, is_terminating, labels_of, name_of, namespace_of, status_of
from kailab.workloads.controller import Controller

STOPPED = "kubeflow-resource-stopped"


class NotebookController(Controller):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, name = self._bench, name_of(owner)
        passed_on = {
            key: value for key, value in annotations_of(owner).items() if "kubectl" not in key and "notebook" not in key
        }
        spec = {
            "replicas": wanted(owner),
            "serviceName": name,
            "selector": {"matchLabels": {"statefulset": name}},
            "template": {
                "metadata": {
                    "labels": {"statefulset": name, "notebook-name": name, **labels_of(owner)},
                    "annotations": passed_on,
                },
                "spec": owner["spec"]["template"]["spec"],
            },
        }
        current = bench.find("StatefulSet", (namespace_of(owner), name))
        if current is None:
            current = bench.create(owner, "StatefulSet", {"metadata": {"name": name}, "spec": spec})
        elif any(current["spec"].get(field) != spec[field] for field in ("replicas", "template")):
            # A patch would leave what the notebook has no more.
            bench.update(owner, "StatefulSet", {**current, "spec": {**current["spec"], **spec}})
        self.set_status(owner, readyReplicas=status_of(current or {}).get("readyReplicas", 0))


def wanted(owner: Object) -> int:
    return int(STOPPED not in annotations_of(owner))
