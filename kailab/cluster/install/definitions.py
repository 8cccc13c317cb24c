"""The CustomResourceDefinitions of Queue, PodGroup, BindRequest and Topology.

Kept as YAML files in ``crds/``, as one would hand them to kubectl. They take every object that KAI's own take, but for
PodGroups of more than 700 subgroups, and refuse what a schema can tell is wrong where KAI leaves that to its webhooks.
"""

from __future__ import annotations

from importlib.resources import files

from kailab.cluster.protocol import Object


def crds() -> list[Object]:
    """CustomResourceDefinition objects (apiextensions.k8s.io/v1), by name."""
    # Only where a cluster is set up: most commands never come here.
    import yaml

    folder = files("kailab.cluster.install").joinpath("crds")
    found: list[Object] = [
        yaml.safe_load(file.read_text(encoding="utf-8")) for file in folder.iterdir() if file.name.endswith(".yaml")
    ]
    return sorted(found, key=lambda crd: str(crd["metadata"]["name"]))
