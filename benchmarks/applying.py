"""Measure ``lab.apply`` of many objects at once: reading the YAML, checks, notices and writing. The lab is not settled.

    python -m benchmarks.applying                # 10,000 objects: Jobs, Pods, ConfigMaps, claims, PyTorchJobs, cliques, quotas
    python -m benchmarks.applying 40000
    python -m benchmarks.applying 10000 --profile

``apply`` takes the objects as text, as from a file. "again" is the same text a second time, when nothing changes.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import time

import yaml

from kailab.lab import Lab
from kailab.model.manifests import load_text
from kailab.model.objects import Object

NAMESPACES = 20
_QUEUE = {name: {"quota": -1, "limit": -1} for name in ("gpu", "cpu", "memory")}


def objects(number: int) -> list[Object]:
    """So many objects, with the namespaces and the queue that they name besides."""
    made: list[Object] = [
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "team"},
            "spec": {"resources": _QUEUE},
        }
    ]
    for index in range(NAMESPACES):
        space = f"space-{index}"
        quota = {"hard": {"requests.nvidia.com/gpu": number, "count/jobs.batch": number, "pods": number}}
        made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        made.append(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "all", "namespace": space},
                "spec": quota,
            }
        )
    return [*made, *(_work(index) for index in range(number))]


def _work(index: int) -> Object:
    container = {
        "name": "main", "image": "cuda", "args": [f"--seed={index}"],
        "resources": {"limits": {"nvidia.com/gpu": 1 + index % 8, "cpu": f"{1 + index % 4}", "memory": "8Gi"}},
    }  # fmt: skip
    pod = {"schedulerName": "kai-scheduler", "containers": [container], "restartPolicy": "Never"}
    labels = {"kai.scheduler/queue": "team", "experiment": f"e{index % 97}"}
    metadata = {"name": f"work-{index}", "namespace": f"space-{index % NAMESPACES}", "labels": labels}
    kind = (
        "Job",
        "Job",
        "Job",
        "Job",
        "Pod",
        "Pod",
        "ConfigMap",
        "PersistentVolumeClaim",
        "PyTorchJob",
        "PodCliqueSet",
    )[index % 10]
    template = {"metadata": {"labels": labels}, "spec": pod}
    bodies: dict[str, tuple[str, Object]] = {
        "Job": ("batch/v1", {"spec": {"template": template, "backoffLimit": 6}}),
        "Pod": ("v1", {"spec": pod}),
        "ConfigMap": ("v1", {"data": {"rate": f"{index}"}}),
        "PersistentVolumeClaim": (
            "v1", {"spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "", "resources": {"requests": {"storage": "1Gi"}}}},
        ),
        "PyTorchJob": (
            "kubeflow.org/v1", {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {**pod, "containers": [{**container, "name": "pytorch"}]}}}}}},
        ),
        "PodCliqueSet": (
            "grove.io/v1alpha1", {"spec": {"replicas": 1, "template": {"cliques": [{"name": "a", "spec": {"roleName": "a", "replicas": 1, "podSpec": {**pod, "restartPolicy": "Always"}}}]}}},
        ),
    }  # fmt: skip
    api_version, body = bodies[kind]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def main(number: int, profile: bool) -> None:
    text = yaml.dump_all(objects(number), Dumper=yaml.CSafeDumper)
    seconds: dict[str, float] = {}
    begun = time.process_time()
    load_text(text)
    seconds["reading alone"] = time.process_time() - begun
    profiler = cProfile.Profile()
    with Lab.open("lesson") as lab:
        for what in ("apply", "again"):
            if profile and what == "apply":
                profiler.enable()
            begun = time.process_time()
            applied = lab.apply(text)
            seconds[what] = time.process_time() - begun
            profiler.disable()
    if profile:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    print(f"{len(applied.changes)} objects, {len(text) / 1e6:.1f} MB, {len(applied.warnings)} warnings")
    for what, took in seconds.items():
        print(f"{what:<15} {took:>7.2f} s {1e6 * took / number:>7.0f} us/object")


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    main(numbers[0] if numbers else 10_000, "--profile" in sys.argv)
