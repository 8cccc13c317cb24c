"""The manifests in the text of the documents that kailab implements, exactly as the text gives them.

The texts were taken from web pages. Two ways of marking YAML survived: a line ``yaml`` before it (up to the next blank
line) and Markdown fences. Elsewhere a block is recognised by its first line, ``apiVersion:``, and reaches as far as
lines look like YAML. Nothing is mended on the way.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from checks.recorded_files import VARIABLE, shared_folder
from kailab.fleet.reading import load_fleet
from kailab.lab import Lab

FILES = {
    "gangs": "seeds/000_bfcc7bef897d892a.txt",
    "course": "seeds/001_2a85594935b437a3.txt",
    "lesson": "seeds/002_a6498fbebce93dc7.txt",
    "policies": "seeds/003_5b9cd3ea22068a6b.txt",
    "recipe": "seeds/004_f9f5bab04071ff7e.txt",
}
_YAML_LINE = re.compile(r"\s*(#.*|---|(- )?[a-z][\w./-]*:( .*)?)$")
UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


@dataclasses.dataclass(frozen=True)
class Block:
    """Some lines of a document, the first of them its ``line``-th."""

    document: str
    line: int
    text: str

    def indented(self, depths: str) -> str:
        """The block with indentation put back by the reader: of each line how deep it is, two spaces a level."""
        lines = self.text.splitlines()
        levels = [int(depth) for depth in depths.split()]
        assert len(levels) == len(lines), f"{len(lines)} lines, {len(levels)} depths"
        return "\n".join("  " * depth + line for depth, line in zip(levels, lines, strict=True)) + "\n"


def blocks_of(document: str, text: str) -> Iterator[Block]:
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        marker, first = lines[at].strip(), at
        if marker == "yaml":
            first = at + 1
            at = next(i for i in range(first, len(lines)) if not lines[i])
        elif marker == "```yaml":
            first = at + 1
            at = lines.index("```", first)
        elif lines[at].startswith("apiVersion:"):
            at = next((i for i in range(first, len(lines)) if not _YAML_LINE.match(lines[i])), len(lines))
        else:
            at += 1
            continue
        yield Block(document, first + 1, "\n".join(lines[first:at]) + "\n")


@pytest.fixture(scope="session")
def documents() -> dict[str, list[Block]]:
    """All blocks of each document, in order. Skips where the documents are not at hand."""
    found = {}
    for name, file in FILES.items():
        path = shared_folder() / file
        if not path.exists():
            pytest.skip(f"{file} is not there: {VARIABLE} names no folder with the documents")
        found[name] = list(blocks_of(name, path.read_text(encoding="utf-8")))
    return found


@pytest.fixture
def block(documents: dict[str, list[Block]]) -> Callable[[str, str], Block]:
    """The one block of a document that has this in it."""

    def find(document: str, wanted: str) -> Block:
        [found] = [block for block in documents[document] if wanted in block.text]
        return found

    return find


@pytest.fixture
def open_lab() -> Iterator[Callable[..., Lab]]:
    """Opens labs in which pods that name no scheduler are ours: most of the documents' name none.

    ``nodes`` and ``gpus``: so many like nodes instead of the fleet's own."""
    labs: list[Lab] = []

    def open(fleet: str = "lesson", nodes: int = 0, gpus: int = 8, **options: Any) -> Lab:
        described = load_fleet(fleet)
        if nodes:
            pool = dataclasses.replace(described.pools[0], count=nodes, gpus=gpus)
            described = dataclasses.replace(described, pools=(pool,))
        labs.append(Lab.open(described, **{"adopt_default_scheduler": True, **options}))
        return labs[-1]

    yield open
    for lab in labs:
        lab.close()


@pytest.fixture
def queue() -> Callable[..., dict[str, Any]]:
    def build(name: str, gpus: dict[str, Any] | None = None, parent: str = "") -> dict[str, Any]:
        resources = {"gpu": gpus or UNLIMITED, "cpu": UNLIMITED, "memory": UNLIMITED}
        spec = {"resources": resources, **({"parentQueue": parent} if parent else {})}
        return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}

    return build


@pytest.fixture
def work() -> Callable[..., dict[str, Any]]:
    """A Job of one-GPU pods that asks for nothing but GPUs."""

    def build(name: str, queue: str, pods: int, **pod: Any) -> dict[str, Any]:
        labels = {"app": name, **({"kai.scheduler/queue": queue} if queue else {})}
        container = {"name": "c", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": 1}}}
        spec = {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **pod,
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "backoffLimit": 1000,
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }

    return build


@pytest.fixture
def claim() -> dict[str, Any]:
    """The volume claim that the gang document's pods mount and its text leaves to the reader."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "training-checkpoints-pvc"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Ti"}}},
    }


def queues_of(
    hierarchy: list[dict[str, Any]], queue: Callable[..., dict[str, Any]], gpus: float
) -> list[dict[str, Any]]:
    """The document's hierarchy as queues: a weight is the per cent of what the level above owns."""

    def level(children: list[dict[str, Any]], owned: float, parent: str) -> Iterator[dict[str, Any]]:
        for child in children:
            quota = owned * child["weight"] / 100
            yield queue(child["name"], {"quota": quota, "limit": -1, "overQuotaWeight": child["weight"]}, parent)
            yield from level(child.get("children", []), quota, child["name"])

    return list(level(hierarchy, gpus, ""))


@pytest.fixture
def company(
    block: Callable[[str, str], Block], open_lab: Callable[..., Lab], queue: Callable[..., dict[str, Any]]
) -> Lab:
    """The lab of 100 GPUs with the document's classes, namespace and hierarchy."""
    lab = open_lab("hundred")
    lab.apply(block("gangs", "kind: PreemptionPolicy").text)
    lab.apply(block("gangs", "kind: KAISchedulerConfig").text)
    applied = lab.apply(block("gangs", "hierarchy:").text)
    # Not an object of KAI's: kept, said so, and turned into queues here.
    assert any("ResourceQuota of kai.nvidia.com/v1 is not known to kailab" in warning for warning in applied.warnings)
    kept = lab.get("ResourceQuota.kai.nvidia.com", "fair-share-config", None)
    lab.apply(queues_of(kept["spec"]["hierarchy"], queue, gpus=100))
    return lab
