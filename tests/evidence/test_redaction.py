"""What evidence and snapshots keep of objects."""

from __future__ import annotations

from kailab.evidence.redaction import Redaction


def test_a_workflow_keeps_the_names_of_its_templates_and_a_ray_job_not_its_command() -> None:
    dag = {
        "dag": {"tasks": [{"name": "b", "template": "one", "dependencies": ["a"], "depends": "a.Succeeded"}]},
        "name": "all",
    }
    one = {"name": "one", "container": {"image": "x", "command": ["secret"]}}
    workflow = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "w"},
        "spec": {"entrypoint": "all", "onExit": "one", "templates": [dag, one]},
    }
    spec = Redaction().object(workflow)["spec"]
    assert (spec["entrypoint"], spec["onExit"], spec["templates"][0]) == ("all", "one", dag)
    assert "command" not in spec["templates"][1]["container"]
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "j"},
        "spec": {"entrypoint": "python x.py"},
    }
    assert "entrypoint" not in Redaction().object(job).get("spec", {})
