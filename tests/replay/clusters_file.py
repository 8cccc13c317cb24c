"""Write files of clusters, with a fleet for each cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kailab.replay.clusters.cluster_file import SiteDefaults, read_sites
from kailab.replay.clusters.dispatcher import dispatch
from kailab.replay.clusters.journeys import JOBS, DispatchedReplay, dispatched_job_rows
from kailab.replay.trace import read_trace

TEAMS = "name,submit,seconds,gpus,team"


def fleet_file(folder: Path, name: str, nodes: int, gpus: int = 4, model: str = "A100") -> str:
    """Its name; in ``folder``."""
    pool = {
        "name": name, "count": nodes, "cpu": 64, "memory": "512Gi", "gpus": gpus, "gpuModel": model, "gpuMemory": "80Gi",
    }  # fmt: skip
    path = folder / f"{name}-fleet.yaml"
    path.write_text(json.dumps({"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": name, "pools": [pool]}))
    return path.name


def prices_file(folder: Path, name: str, per_hour: float) -> str:
    path = folder / f"{name}-prices.yaml"
    path.write_text(json.dumps({"apiVersion": "kailab.dev/v1", "kind": "Prices", "other": {"perHour": per_hour}}))
    return path.name


def clusters_file(folder: Path, *clusters: dict[str, Any], **fields: Any) -> Path:
    """Each cluster with ``name`` and ``nodes``, or a ``fleet``; ``per_hour`` makes a file of prices."""
    told = []
    for one in clusters:
        own = dict(one)
        if "nodes" in own:
            own["fleet"] = fleet_file(
                folder, own["name"], own.pop("nodes"), own.pop("gpus", 4), own.pop("model", "A100")
            )
        if "per_hour" in own:
            own["prices"] = prices_file(folder, own["name"], own.pop("per_hour"))
        told.append(own)
    path = folder / "clusters.yaml"
    path.write_text(json.dumps({"apiVersion": "kailab.dev/v1", "kind": "Clusters", "clusters": told, **fields}))
    return path


def dispatched(trace: Path, clusters: Path, *, lasting: int | None = None, **otherwise: Any) -> DispatchedReplay:
    return dispatch(read_sites(clusters, read_trace(trace), SiteDefaults(**otherwise)), lasting)


def rows(found: DispatchedReplay) -> dict[str, dict[str, Any]]:
    """By the names of the jobs."""
    return {row[0]: dict(zip(JOBS, row, strict=True)) for row in dispatched_job_rows(found)}


def where(found: DispatchedReplay) -> dict[str, tuple[Any, ...]]:
    """Name -> (cluster, began, ended)."""
    return {name: (row["cluster"], row["began"], row["ended"]) for name, row in rows(found).items()}
