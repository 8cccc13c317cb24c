"""Find the Helm chart of a KAI release, its images, and the values that fit a cluster of fake GPUs.

The chart is published, or it is in a user's folder: an archive (``kai-scheduler-v0.16.8.tgz``) or a folder as in KAI's repository, with
image archives beside it or in ``images/``. The folder is checked before anything is installed.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kailab.cluster.helm import Chart, Release
from kailab.errors import InputError, Where
from kailab.model.files import LARGEST_FILE, read_bytes
from kailab.model.yamltext import load_foreign
from kailab.undertest.binaries import check_folder, given_path
from kailab.undertest.kai.releases import ReleaseFeatures, features_of

# --- image archives ---------------------------------------------------------------------------------------------------

_ENDINGS = (".tar", ".tar.gz", ".tgz")
_NAME_ANNOTATIONS = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


class ImageArchive(NamedTuple):
    """``images``: their full names, as ``registry/name:tag``."""

    path: Path
    images: tuple[str, ...]


def packed_files(folder: Path) -> list[Path]:
    """Packed files of a folder, and of ``images`` in it."""
    places = [folder, folder / "images"]
    return [file for place in places if place.is_dir() for file in sorted(place.iterdir()) if _is_packed(file)]


def read_image_archive(path: Path) -> ImageArchive | None:
    """The images in an archive; None if the file is no archive of images. Raises InputError if it is damaged or names no image."""
    try:
        with tarfile.open(path) as packed:
            tables = _tables(packed)
    except (OSError, tarfile.TarError, EOFError, ValueError) as error:
        raise InputError(f"can't be read as an archive: {error}", Where(file=str(path))) from None
    if not tables:
        return None
    names = tuple(dict.fromkeys(name for table in tables.items() for name in _image_names(*table)))
    if not names:
        raise InputError("its images have no names; save them by name (docker save NAME:TAG)", Where(file=str(path)))
    return ImageArchive(path, names)


def _is_packed(file: Path) -> bool:
    return file.is_file() and file.name.endswith(_ENDINGS)


def _tables(packed: tarfile.TarFile) -> dict[str, Any]:
    result = {}
    for member in packed:
        name = member.name.removeprefix("./")
        if name in ("manifest.json", "index.json") and (content := packed.extractfile(member)) is not None:
            result[name] = json.loads(content.read(LARGEST_FILE))
    return result


def _image_names(table: str, content: Any) -> Iterator[str]:
    if table == "manifest.json" and isinstance(content, list):
        for entry in content:
            yield from entry.get("RepoTags") or ()
    elif isinstance(content, dict):
        for manifest in content.get("manifests") or ():
            annotations = manifest.get("annotations") or {}
            # A reference may be a bare tag without a name.
            yield from [str(annotations[key]) for key in _NAME_ANNOTATIONS if ":" in str(annotations.get(key, ""))][:1]


# --- chart source -----------------------------------------------------------------------------------------------------

CHART_ENV = "KAILAB_KAI_CHART"
CHART_NAME = "kai-scheduler"

_PUBLISHED = "oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler"
_PUBLISHED_BEFORE = "oci://ghcr.io/nvidia/kai-scheduler/kai-scheduler"
_MOVED = (0, 13, 0)
_UNNUMBERED = "0.0.0"  # the version of the chart in the repository, before a release packs it


@dataclass(frozen=True)
class ChartSource:
    """``release``: with its ``v``. ``numbered``: whether the chart contains its release; that of KAI's repository does not. ``archives``: of
    images to load into the nodes; none: the nodes pull them."""

    release: str
    dialect: ReleaseFeatures
    chart: Chart
    numbered: bool = True
    archives: tuple[ImageArchive, ...] = ()

    @property
    def images(self) -> frozenset[str]:
        return frozenset(name for archive in self.archives for name in archive.images)

    @property
    def registry(self) -> tuple[str, str]:
        """Registry and tag of the images in the archives; both "" without archives. Raises InputError for archives without KAI's scheduler."""
        if not self.archives:
            return "", ""
        for name in sorted(self.images):
            before, _, tag = name.rpartition(":")
            registry, _, last = before.rpartition("/")
            if last == "scheduler":
                return registry, tag
        raise InputError(f"none of the image archives has KAI's image scheduler: {', '.join(sorted(self.images))}")


def find_chart(release: str, folder: Path | str | None = None) -> ChartSource:
    """``folder``: None for the one in KAILAB_KAI_CHART, else the published chart. Raises InputError for an unknown release, and for a folder
    without its chart."""
    try:
        dialect = features_of(release)
    except InputError as error:
        raise InputError(f"kai@{release}: {error.message}") from None
    if dialect is None:
        raise InputError(f"kai@{release}: expected a release of KAI, as in kai@v0.16.8")
    place = given_path(folder, CHART_ENV)
    if place is None:
        ref = _PUBLISHED if dialect.number >= _MOVED else _PUBLISHED_BEFORE
        return ChartSource(release, dialect, Chart(ref, release))
    check_folder(place, "with KAI's chart and images")
    chart, numbered, others = _chart(place, release)
    archives = [archive for path in others if (archive := read_image_archive(path)) is not None]
    return ChartSource(release, dialect, Chart(str(chart)), numbered, tuple(archives))


def _chart(place: Path, release: str) -> tuple[Path, bool, list[Path]]:
    """The chart of a release, whether it contains the release, and the other packed files."""
    about: dict[Path, Mapping[str, Any]] = dict(_charts_in_folders(place))
    others = []
    for path in packed_files(place):
        if (chart := _packed_chart(path)) is None:
            others.append(path)
        else:
            about[path] = chart
    versions = {path: str(chart.get("version", "")) for path, chart in about.items() if chart.get("name") == CHART_NAME}
    if not versions:
        raise InputError(
            f"has no chart {CHART_NAME}; expected {CHART_NAME}-{release}.tgz or the folder {CHART_NAME} of KAI's repository "
            "(deployments/kai-scheduler)",
            Where(file=str(place)),
        )
    fitting = [path for path, version in versions.items() if version.removeprefix("v") == release.removeprefix("v")]
    fitting = fitting or [path for path, version in versions.items() if version == _UNNUMBERED]
    if len(fitting) == 1:
        return fitting[0], versions[fitting[0]] != _UNNUMBERED, others
    if fitting:
        names = ", ".join(path.name for path in fitting)
        raise InputError(f"has several charts of {release}: {names}", Where(file=str(place)))
    versions_found = ", ".join(f"{path.name} ({version})" for path, version in versions.items())
    raise InputError(f"has no chart of {release}; there is {versions_found}", Where(file=str(place)))


def _charts_in_folders(place: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for folder in (place, *sorted(place.iterdir())):
        file = folder / "Chart.yaml"
        if file.is_file():
            yield folder, _parse_chart(read_bytes(file), file)


def _packed_chart(path: Path) -> Mapping[str, Any] | None:
    if path.suffix == ".tar":
        return None
    try:
        with tarfile.open(path) as content:
            for member in content:
                # The chart's own file, not that of a subchart.
                if member.name.count("/") == 1 and member.name.endswith("/Chart.yaml"):
                    file = content.extractfile(member)
                    return _parse_chart(file.read(LARGEST_FILE) if file is not None else b"", path)
                if member.name in ("manifest.json", "index.json", "oci-layout"):
                    return None
    except (OSError, tarfile.TarError, EOFError) as error:
        raise InputError(f"can't be read as an archive: {error}", Where(file=str(path))) from None
    return None


def _parse_chart(content: bytes, file: Path) -> Mapping[str, Any]:
    try:
        chart = load_foreign(content)
    except yaml.YAMLError as error:
        raise InputError(f"its Chart.yaml is no YAML: {error}", Where(file=str(file))) from None
    return chart if isinstance(chart, dict) else {}


# --- values and rendered objects --------------------------------------------------------------------------------------

RELEASE = Release(CHART_NAME, CHART_NAME)
_OPERATOR = (0, 9, 0)
"""Since these releases the chart installs an operator, which starts the other programs according to a Config."""

_REAL_NODES = [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}]
"""Tolerations of KAI's own pods: a cluster may have only one real node. Fake nodes have other taints."""

_EVICTED = "update-pod-eviction-condition"
_CONFIG = "Config"


def chart_values(source: ChartSource) -> dict[str, Any]:
    """Values for the chart of this release. A chart ignores unknown values."""
    registry, tag = source.registry
    common: dict[str, Any] = {"leaderElection": False, "gpuSharing": True, "tolerations": _REAL_NODES}
    if registry:
        common |= {"registry": registry, "tag": tag}
    result: dict[str, Any] = {
        "global": common,
        # Labs have their own queues, and the chart's queues would share with them.
        "defaultQueue": {"createDefaultQueue": False},
        # This runtime class exists only on nodes with NVIDIA's runtime, and without it no pod with a part of a GPU could be created.
        "admission": {"gpuPodRuntimeClassName": "", "gpuFractionRuntimeClassName": ""},
    }
    if source.dialect.number < _OPERATOR:
        result["binder"] = {"additionalArgs": ["--fake-gpu-nodes=true"]}
        flags = shard_arguments(source.dialect)
        result["scheduler"] = {"additionalArgs": [f"--{flag}={value}" for flag, value in flags.items()]}
    return result


def has_operator(dialect: ReleaseFeatures) -> bool:
    return dialect.number >= _OPERATOR


def shard_arguments(dialect: ReleaseFeatures, flags: Mapping[str, str] | None = None) -> dict[str, str]:
    """Flags of the scheduler by name. ``flags``: further ones."""
    # The condition that an eviction leaves on its pod is how a lab sees that it was one.
    own = {_EVICTED: "true"} if dialect.has_flag("scheduler", _EVICTED) else {}
    return {**own, **(flags or {})}


def check_images(source: ChartSource, objects: list[dict[str, Any]]) -> None:
    """Raises InputError if archives were given but lack an image of these objects."""
    if not source.archives:
        return
    lacking = sorted(set(images_of(objects)) - source.images)
    if lacking:
        there = ", ".join(sorted(source.images))
        raise InputError(
            f"the image archives beside the chart lack {', '.join(lacking)}; they have {there}. Save each by its name: "
            f"docker save -o FILE.tar {lacking[0]}"
        )


def images_of(objects: list[dict[str, Any]]) -> Iterator[str]:
    """Images for real nodes: those of containers, and those that an operator starts."""
    for obj in objects:
        yield from _of_containers(obj)
        if obj.get("kind") == _CONFIG:
            yield from _of_services(obj.get("spec") or {})
        elif obj.get("kind") == "ConfigMap":
            # In newer charts a Job applies the operator's Config from a file.
            for text in (obj.get("data") or {}).values():
                yield from _of_services(_config_in(text))


def _config_in(text: str) -> Mapping[str, Any]:
    if f"kind: {_CONFIG}" not in text:
        return {}
    try:
        config = load_foreign(text)
    except yaml.YAMLError:
        return {}
    return config.get("spec") or {} if isinstance(config, dict) and config.get("kind") == _CONFIG else {}


def _of_containers(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inside in value.items():
            if key in ("containers", "initContainers") and isinstance(inside, list):
                yield from (str(box["image"]) for box in inside if isinstance(box, Mapping) and box.get("image"))
            else:
                yield from _of_containers(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _of_containers(inside)


def _of_services(spec: Mapping[str, Any]) -> Iterator[str]:
    for part in spec.values():
        service = part.get("service") if isinstance(part, Mapping) else None
        # Services on demand are off by default.
        if not isinstance(service, Mapping) or service.get("enabled") is not True:
            continue
        image = service.get("image") or {}
        if image.get("repository") and image.get("name"):
            yield f"{image['repository']}/{image['name']}:{image.get('tag', 'latest')}"
