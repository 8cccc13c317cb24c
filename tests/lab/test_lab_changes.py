"""The line that says how a lab settled."""

from __future__ import annotations

from kailab.lab import Lab
from kailab.lab.lab_changes import LabChanges

REFUSED = """
{apiVersion: v1, kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, max: {cpu: %s}}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {schedulerName: kai-scheduler, containers: [{name: c, image: x, resources: {limits: {cpu: 2}}}]}
"""


def test_the_line_names_workloads_whose_pods_are_refused():
    with Lab.open("lesson") as lab:
        before = LabChanges(lab)
        lab.apply(REFUSED % 1)
        lab.settle()
        assert before.describe().endswith(
            "no pods; not made, because the API server refuses them: 3 pods of Deployment default/web"
        )
        lab.apply(REFUSED % 4)
        lab.advance(600)
        assert "refuses" not in before.describe()
