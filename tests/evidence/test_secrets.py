"""Evidence carries no secrets: each test plants some and looks for their bytes in all that was written."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kailab.errors import ExpectationFailed, InputError
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder
from kailab.lab import Lab, expect
from kailab.report import render

QUEUE = """apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 4, limit: 4}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
"""
QUEUED = {"app": "work", "kai.scheduler/queue": "team"}


class Secrets:
    """Gives out texts that stand nowhere else, each with the place it was planted in."""

    def __init__(self) -> None:
        self.planted: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        text = f"zq{len(self.planted):04d}xk9vr{len(place):02d}"
        self.planted[text] = place
        return text

    def found_in(self, *folders: Path) -> list[tuple[str, str]]:
        """(place, file) of every one that is in a file, plain or in base64."""
        found = []
        for folder in folders:
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
                for text, place in self.planted.items():
                    if any(form in content for form in (text.encode(), base64.b64encode(text.encode()))):
                        found.append((place, path.relative_to(folder).as_posix()))
        return found

    def container(self, name: str = "main", gpus: int = 1) -> dict[str, Any]:
        """Everything that a container may say."""
        return {
            "name": name,
            "image": f"https://{self('image user')}:{self('image password')}@registry.example/team/{name}:1",
            "command": ["run", self("command"), f"--password={self('flag in a command')}"],
            "args": [self("args"), "--token", self("args after a flag")],
            "workingDir": f"/{self('workingDir')}",
            "env": [
                {"name": self("name of an environment variable"), "value": self("env")},
                {"name": "URL", "value": f"postgres://me:{self('URL in env')}@db/x"},
                {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "s", "key": self("secretKeyRef key")}}},
                {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": self("config map key")}}},
            ],
            "envFrom": [{"prefix": self("envFrom prefix"), "secretRef": {"name": self("envFrom secret")}}],
            "livenessProbe": {
                "httpGet": {
                    "path": f"/?token={self('probe path')}",
                    "port": 80,
                    "host": self("probe host"),
                    "httpHeaders": [{"name": "Authorization", "value": f"Bearer {self('probe header')}"}],
                }
            },
            "readinessProbe": {"exec": {"command": [self("probe command")]}},
            "lifecycle": {
                "postStart": {"exec": {"command": ["sh", "-c", f"login {self('postStart')}"]}},
                "preStop": {"exec": {"command": ["sh", "-c", f"save --key {self('preStop')}"]}},
            },
            "terminationMessagePath": f"/{self('terminationMessagePath')}",
            "securityContext": {"seLinuxOptions": {"user": self("seLinux")}},
            "volumeMounts": [{"name": "settings", "mountPath": f"/{self('mountPath')}", "subPath": self("subPath")}],
            "resources": {"limits": {"nvidia.com/gpu": gpus}},
        }

    def pod_spec(self, gpus: int = 1, **more: Any) -> dict[str, Any]:
        """Everything that a pod may say; it can be scheduled, once its ConfigMap is there."""
        return {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            "imagePullSecrets": [{"name": self("imagePullSecrets")}],
            "serviceAccountName": self("serviceAccountName"),
            "hostname": self("hostname").lower(),
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": [self("hostAliases")]}],
            "dnsConfig": {"searches": [self("dns search")], "options": [{"name": "x", "value": self("dns option")}]},
            "securityContext": {"sysctls": [{"name": "kernel.shm", "value": self("sysctl")}]},
            "initContainers": [{**self.container("first", 0), "restartPolicy": "Always"}],
            "containers": [self.container("main", gpus)],
            "volumes": [
                {"name": "settings", "configMap": {"name": "settings", "items": [{"key": self("item"), "path": "x"}]}},
                {"name": "keys", "secret": {"secretName": self("secretName")}},
                {"name": "host", "hostPath": {"path": f"/{self('hostPath')}"}},
                {
                    "name": "csi",
                    "csi": {
                        "driver": "csi.example",
                        "volumeAttributes": {"password": self("csi volumeAttributes")},
                        "nodePublishSecretRef": {"name": self("csi secret")},
                    },
                },
                {"name": "flex", "flexVolume": {"driver": "x/y", "options": {"pass": self("flexVolume options")}}},
                {
                    "name": "all",
                    "projected": {"sources": [{"secret": {"name": self("projected secret")}},
                                              {"configMap": {"name": "settings"}}]},
                },
            ],
            **more,
        }  # fmt: skip

    def metadata(self, name: str = "", **more: Any) -> dict[str, Any]:
        notes = {
            "example.com/token": self("annotation"),
            "kubectl.kubernetes.io/last-applied-configuration": f'{{"spec": {{"x": "{self("last applied")}"}}}}',
            self("key of an annotation"): "x",
        }
        named = {"name": name} if name else {}
        return {**named, "labels": {**QUEUED, "secret": self("label")}, "annotations": notes, **more}


@pytest.fixture
def secrets() -> Secrets:
    return Secrets()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a recorder's evidence; gives the run's folder."""

    def written(recorder: Recorder, message: str = "", outcome: str = "failed", root: str = "runs") -> Path:
        run = RunFolder.begin(tmp_path / root)
        run.write("e", "t", lambda folder: write_test(folder, "e/t", [recorder], outcome, message))
        run.finish({"kailab": "x"})
        return run.path

    return written


def kubeconfig(secrets: Secrets) -> str:
    token = secrets("kubeconfig token")
    key = base64.b64encode(secrets("kubeconfig key").encode()).decode()
    return yaml.safe_dump(
        {"kind": "Config", "users": [{"name": "me", "user": {"token": token, "client-key-data": key}}]}
    )


def around(secrets: Secrets) -> list[dict[str, Any]]:
    """A Secret, and a ConfigMap that holds one."""
    data = base64.b64encode(secrets("Secret data").encode()).decode()
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": secrets.metadata("keys"),
            "stringData": {"password": secrets("Secret stringData")},
            "data": {"key": data},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": secrets.metadata("settings"),
            "data": {"kubeconfig": kubeconfig(secrets)},
            "binaryData": {"x": base64.b64encode(secrets("binaryData").encode()).decode()},
        },
    ]


def pod(secrets: Secrets, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": secrets.metadata(name), "spec": secrets.pod_spec(**more)}


def test_objects_and_all_that_is_done_with_them(secrets: Secrets, write: Callable[..., Path]) -> None:
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(QUEUE)
        lab.apply(*around(secrets), pod(secrets, "one"), pod(secrets, "two", gpus=9))
        lab.settle()
        lab.patch("Pod", "one", {"metadata": {"annotations": {"example.com/later": secrets("patched annotation")}}})
        lab.patch("Secret", "keys", {"stringData": {"later": secrets("patched Secret")}})
        lab.delete("Pod", "two")
        lab.advance(60)
    run = write(recorder)
    assert secrets.found_in(run) == []
    decisions = (run / "e/t/lab/decisions.jsonl").read_text()
    assert '"default/one"' in decisions
    (after,) = json.loads((run / "e/t/lab/after/pods.json").read_bytes())
    assert after["metadata"]["labels"] == QUEUED
    (main,) = after["spec"]["containers"]
    assert main["image"] == "registry.example/team/main:1"
    assert main["resources"]["limits"] == {"nvidia.com/gpu": 1}


def test_comments_of_a_manifest(secrets: Secrets, write: Callable[..., Path], tmp_path: Path) -> None:
    file = tmp_path / "queue.yaml"
    file.write_text(f"# password: {secrets('comment')}\n{QUEUE}")
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(file)
    assert secrets.found_in(write(recorder)) == []


def test_texts_that_quote_an_object(secrets: Secrets, write: Callable[..., Path]) -> None:
    """What a webhook says of an object that it refuses, in events, conditions, and the failure of a test."""
    recorder = Recorder()
    made = pod(secrets, "one", gpus=9)
    token, password = made["spec"]["containers"][0]["env"][0]["value"], made["spec"]["containers"][0]["command"][2]
    said = f'admission webhook denied the request: env TOKEN="{token}", {password}, https://me:{secrets("URL")}@host/x'
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(QUEUE, *around(secrets), made)
        lab.settle()
        there = lab.cluster.get("Pod", "one", "default")
        lab.cluster.event(there, "Warning", "FailedCreate", said)
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
        lab.cluster.patch("Pod", "one", "default", {"status": {"conditions": [condition]}}, subresource="status")
        with pytest.raises(ExpectationFailed) as failed:
            expect(lab.app("work")).running(pods=1)
        timeline = msgspec.json.encode(recorder.brief_timeline(60)[0]).decode()
    run = write(recorder, message=f"{failed.value}\n{said}")
    assert secrets.found_in(run) == []
    for text in (timeline, render(run), render(run, "markdown")):
        assert [place for secret, place in secrets.planted.items() if secret in text] == []
    assert "denied the request: env TOKEN=" in (run / "e/t/lab/events.json").read_text()


def test_objects_that_are_refused(secrets: Secrets, write: Callable[..., Path]) -> None:
    recorder = Recorder()
    value = f"{secrets('env that is no text')}"
    bad = pod(secrets, "bad")
    bad["spec"]["containers"][0]["env"] = [{"name": "X", "value": [value]}]
    bad["spec"]["initContainers"] = secrets("text where a list belongs")
    broken = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: x}}\nstringData: {{a: {secrets('broken YAML')}: :\n"
    with Lab.open(observers=[recorder]) as lab:
        messages = []
        for source in (bad, broken, yaml.safe_dump(bad)):
            with pytest.raises(InputError) as refused:
                lab.apply(source)
            messages.append(str(refused.value))
    assert secrets.found_in(write(recorder, message="\n".join(messages))) == []


@pytest.mark.parametrize(
    "field", ["env", "envFrom", "ports", "volumeMounts", "lifecycle", "args", "image", "livenessProbe"]
)
@pytest.mark.parametrize("value", ["a text: {}", ["{}"], {"a": "{}"}, [["{}"]], 7])
def test_objects_that_are_not_formed_as_their_kind_is(
    field: str, value: Any, secrets: Secrets, write: Callable[..., Path]
) -> None:
    secret = secrets(field)
    made = pod(secrets, "odd")
    made["spec"]["containers"][0][field] = json.loads(json.dumps(value).replace("{}", secret))
    recorder = Recorder()
    message = ""
    with Lab.open(observers=[recorder]) as lab:
        try:
            lab.apply(QUEUE, made)
        except InputError as error:
            message = str(error)
    assert field == "image" or secrets.found_in(write(recorder, message)) == []


TEMPLATE_KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "JobSet", "LeaderWorkerSet")
ROLE_KINDS = {"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}
ROLES = {"PyTorchJob": {"Master": 1, "Worker": 1}, "TFJob": {"Worker": 2}, "MPIJob": {"Launcher": 1, "Worker": 1}}
OTHER_KINDS = ("RayCluster", "RayJob", "SparkApplication", "Service.serving.knative.dev", "Unknown")
VERSIONS = {
    "Job": "batch/v1", "CronJob": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2", "RayCluster": "ray.io/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1", "MPIJob": "kubeflow.org/v2beta1", "RayJob": "ray.io/v1",
    "SparkApplication": "sparkoperator.k8s.io/v1beta2", "Service.serving.knative.dev": "serving.knative.dev/v1",
    "Unknown": "example.com/v1", "PyTorchJob": "kubeflow.org/v1", "TFJob": "kubeflow.org/v1",
}  # fmt: skip


def workload(kind: str, secrets: Secrets) -> dict[str, Any]:
    """One object of a kind, with all that its pods may say and texts of its own."""
    template = {"metadata": secrets.metadata(), "spec": secrets.pod_spec()}
    always = {"metadata": template["metadata"], "spec": {**template["spec"], "restartPolicy": "Always"}}
    selected = {"selector": {"matchLabels": {"app": "work"}}, "template": always}
    specs: dict[str, Any] = {
        "Deployment": {"replicas": 2, **selected},
        "ReplicaSet": {"replicas": 2, **selected},
        "StatefulSet": {"replicas": 2, "serviceName": "s", **selected},
        "DaemonSet": selected,
        "Job": {"parallelism": 2, "completions": 2, "template": template},
        "CronJob": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}},
        "JobSet": {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": {"template": template}}}]},
        "LeaderWorkerSet": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": always}},
        "RayCluster": {
            "headGroupSpec": {"rayStartParams": {"redis-password": secrets("rayStartParams")}, "template": always},
            "workerGroupSpecs": [{"groupName": "w", "replicas": 1, "minReplicas": 1, "maxReplicas": 2,
                                  "rayStartParams": {"password": secrets("worker's rayStartParams")}, "template": always}],
        },
        "SparkApplication": {
            "type": "Python",
            "mode": "cluster",
            "sparkVersion": "3.5.0",
            "mainApplicationFile": f"s3a://{secrets('mainApplicationFile')}/x.py",
            "arguments": [secrets("Spark arguments")],
            "sparkConf": {"spark.hadoop.fs.s3a.secret.key": secrets("sparkConf")},
            "hadoopConf": {secrets("key of hadoopConf"): "x"},
            "driver": {"cores": 1, "memory": "1g", "envVars": {"X": secrets("Spark envVars")}, "labels": QUEUED,
                       "annotations": {"example.com/x": secrets("driver's annotation")}},
            "executor": {"instances": 1, "cores": 1, "memory": "1g", "labels": QUEUED, "env": [{"name": "A", "value": secrets("executor's env")}]},
        },
        "Service.serving.knative.dev": {"template": {**always, "metadata": {**always["metadata"]}}},
        "Unknown": {"token": secrets("a field of an unknown kind"), "inside": [{"deep": {"password": secrets("deep inside")}}],
                    "template": template},
    }  # fmt: skip
    specs["RayJob"] = {
        "entrypoint": f"python x.py --token {secrets('entrypoint')}",
        "runtimeEnvYAML": f"env_vars: {{X: {secrets('runtimeEnvYAML')}}}",
        "rayClusterSpec": specs["RayCluster"],
    }
    for role_kind, field in ROLE_KINDS.items():
        roles = ROLES[role_kind].items()
        specs[role_kind] = {field: {role: {"replicas": count, "template": template} for role, count in roles}}
    return {
        "apiVersion": VERSIONS.get(kind, "apps/v1"),
        "kind": kind.partition(".")[0],
        "metadata": secrets.metadata("a"),
        "spec": specs[kind],
    }


@pytest.mark.parametrize("kind", [*TEMPLATE_KINDS, *ROLE_KINDS, *OTHER_KINDS])
def test_workloads_and_their_pods(kind: str, secrets: Secrets, write: Callable[..., Path]) -> None:
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(QUEUE, *around(secrets), workload(kind, secrets))
        lab.advance(90)
        pods = len(lab.get("Pod"))
    run = write(recorder)
    assert secrets.found_in(run) == []
    assert pods or kind == "Unknown"
    # What is kept can be applied again, and gives as many pods.
    with Lab.open() as again:
        for file in sorted((run / "e/t/lab/manifests").iterdir()):
            again.apply(file)
        again.advance(90)
        assert len(again.get("Pod")) == pods


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every mapping in a structure, by its path, but for those whose texts decisions read."""
    found = [path] if isinstance(value, dict) else []
    kept = ("labels", "limits", "matchLabels", "tolerations", "selector")
    for key, inside in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        if key not in kept:
            found += places(inside, (*path, key))
    return found


@settings(
    max_examples=25,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_field_that_nobody_knows(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kubernetes gets new fields, operators have their own: whatever they are called, their text is in no evidence."""
    secrets = Secrets()
    kind = data.draw(st.sampled_from(["Deployment", "Job", "RayCluster", "SparkApplication", "Unknown"]))
    obj = workload(kind, secrets)
    field = data.draw(st.from_regex(r"x[A-Za-z]{3,12}", fullmatch=True))
    holder: Any = obj
    for step in data.draw(st.sampled_from(places(obj))):
        holder = holder[step]
    text = secrets("a field that nobody knows")
    holder[field] = data.draw(st.sampled_from([text, f"say {text}", f"a={text};b"]))
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        try:
            lab.apply(QUEUE, *around(secrets), obj)
            lab.settle()
            message = ""
        except InputError as error:  # a field where a text can't be
            message = str(error)
    folder = tmp_path_factory.mktemp("evidence")
    write_test(folder, "e/t", [recorder], "passed", message)
    assert secrets.found_in(folder) == []
