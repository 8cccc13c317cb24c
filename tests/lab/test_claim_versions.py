"""Claims made from templates of versions in which requests are written otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.lab import Lab

WISH = {"deviceClassName": "gpu.nvidia.com", "count": 2}


@pytest.mark.parametrize(
    ("version", "request_"),
    [("v1", {"exactly": WISH}), ("v1beta2", {"exactly": WISH}), ("v1beta1", WISH), ("v1alpha3", WISH)],
)
def test_a_claim_is_made_in_the_version_of_its_template(version, request_, queue):
    requests = [{"name": "gpu", **request_}]
    labels = {"kai.scheduler/queue": "team"}
    template: dict[str, Any] = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus"},
        "spec": {"metadata": {"labels": labels}, "spec": {"devices": {"requests": requests}}},
    }
    container = {"name": "c", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": labels},
        "spec": {
            "schedulerName": "kai-scheduler",
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
            "containers": [container],
        },
    }
    with Lab.open("lesson", devices=True) as lab:
        assert not [text for text in lab.apply(queue("team", -1), template, pod).warnings if "no such field" in text]
        lab.settle()
        assert lab.cluster.get("Pod", "p", "default")["status"]["phase"] == "Running"
        (claim,) = lab.cluster.list("ResourceClaim")
        assert len(claim["status"]["allocation"]["devices"]["results"]) == 2
