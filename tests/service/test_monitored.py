"""The ServiceMonitor leads Prometheus to the metrics that the scheduler serves: labels and ports match."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from kailab.cli.main import app
from kailab.errors import InputError
from kailab.model.manifests import load_text
from kailab.scheduler.service.manifests import monitoring, scheduler_manifests

OPERATOR = (
    "github.com/prometheus-operator/prometheus-operator@v0.79.2",
    "h1:H/HCiMS4dXQyiFHw28PFlWMh15YUraL3MFe8u7k7dGA=",
)
CRD = "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"
NAMESPACE = "monitored"


def of_kind(text: str, kind: str) -> Any:
    [found] = [one for one in yaml.safe_load_all(text) if one and one["kind"] == kind]
    return found


def within(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return bool(selector) and selector.items() <= labels.items()


def test_labels_and_ports_lead_to_where_the_scheduler_serves(plane, start) -> None:
    text = monitoring(NAMESPACE)
    monitor, service = of_kind(text, "ServiceMonitor"), of_kind(text, "Service")
    deployment = of_kind(scheduler_manifests(NAMESPACE, "registry.example.com/kailab:1.0"), "Deployment")
    assert service["metadata"]["namespace"] in monitor["spec"]["namespaceSelector"]["matchNames"]
    assert within(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"])
    assert monitor["spec"]["jobLabel"] in service["metadata"]["labels"]
    [endpoint] = monitor["spec"]["endpoints"]
    [port] = [one for one in service["spec"]["ports"] if one["name"] == endpoint["port"]]

    template = deployment["spec"]["template"]
    assert service["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    assert within(service["spec"]["selector"], template["metadata"]["labels"])
    [container] = template["spec"]["containers"]
    [served] = [one["containerPort"] for one in container["ports"] if one["name"] == port["targetPort"]]

    # The same command, but for the port, which somebody else may have here, and its lease.
    options = dict(one.lstrip("-").partition("=")[::2] for one in container["command"] if one.startswith("--"))
    assert options.pop("port") == str(served)
    assert options.pop("bind-address") == "0.0.0.0"
    assert set(options) == {"lease-namespace", "lease-name"}
    running = start("monitored", "--bind-address", "0.0.0.0", "--port", "0")
    code, told = running.ask(endpoint["path"])
    assert code == 200
    assert "# TYPE kai_total_preemption_attempts counter" in told


def test_it_is_as_the_operators_own_schema_says() -> None:
    schema = _schema()
    jsonschema.validate(
        of_kind(monitoring(NAMESPACE, "15s", {"release": "kube-prometheus-stack"}), "ServiceMonitor"), schema
    )
    # The schema says no to what it does not know.
    wrong = of_kind(monitoring(NAMESPACE), "ServiceMonitor")
    wrong["spec"]["endpoints"][0]["ports"] = "http"
    with pytest.raises(jsonschema.ValidationError, match="ports"):
        jsonschema.validate(wrong, schema)


def _schema() -> dict[str, Any]:
    """The schema of the CRD in the operator's Go module; skips if it can't be downloaded."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go, by whose module proxy the operator's CRDs are got")
    module, expected = OPERATOR
    got = subprocess.run([go, "mod", "download", "-json", module], capture_output=True, text=True)
    found = json.loads(got.stdout or "{}")
    if "Dir" not in found:
        pytest.skip(f"{module} can't be had: {found.get('Error') or got.stderr}")
    assert found["Sum"] == expected
    crd = yaml.safe_load((Path(found["Dir"]) / CRD).read_text())
    [version] = [one for one in crd["spec"]["versions"] if one["name"] == "v1"]
    return _strict(version["schema"]["openAPIV3Schema"])


def _strict(schema: Any) -> Any:
    """An API server drops fields that a schema lacks; this check reports them."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _strict(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found if found.get("properties", {}).keys() != {"annotations"} else schema


def test_the_command_prints_what_a_lab_can_read() -> None:
    said = CliRunner().invoke(
        app, ["metrics", "monitor", "-n", NAMESPACE, "--interval", "1m", "--label", "release=prom"]
    )
    assert said.exit_code == 0, said.output
    assert said.output.rstrip("\n") == monitoring(NAMESPACE, "1m", {"release": "prom"}).rstrip("\n")
    assert [one["kind"] for one in load_text(said.output).objects] == ["Service", "ServiceMonitor"]
    monitor = of_kind(said.output, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prom"
    assert monitor["spec"]["endpoints"][0]["interval"] == "1m"


@pytest.mark.parametrize(
    "namespace, interval, labels, told",
    [
        ("a b", "30s", {}, "--namespace 'a b'"),
        ("a", "soon", {}, "--interval 'soon'"),
        ("a", "0s", {}, "--interval '0s'"),
        ("a", "30s", {"re lease": "x"}, "--label 're lease'"),
        ("a", "30s", {"/x": "x"}, "--label '/x'"),
        ("a", "30s", {"release": 'x"\nspec: {}'}, "--label release="),
        ("a", "30s", {"app.kubernetes.io/name": "other"}, "by which the Service is found"),
    ],
)
def test_what_can_not_be_is_refused(namespace: str, interval: str, labels: dict[str, str], told: str) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        monitoring(namespace, interval, labels)


@pytest.mark.parametrize("labels, told", [(["release"], "expected NAME=VALUE"), (["a=b", "a=c"], "given twice")])
def test_labels_are_checked_before_anything_is_printed(labels: list[str], told: str) -> None:
    said = CliRunner().invoke(app, ["metrics", "monitor", *(part for label in labels for part in ("--label", label))])
    assert said.exit_code != 0
    assert told in (said.output + str(said.exception))
    assert "ServiceMonitor" not in said.output.replace("--label", "")
