"""Where the chart of a release of KAI is: published, or in a folder that a user brought with its images.

Such a folder has the chart, an archive (``kai-scheduler-v0.16.8.tgz``) or a folder as in KAI's repository, and archives of its images
beside it or in ``images/``. Everything is looked at before anything is installed.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kailab.cluster.helm import Chart
from kailab.errors import InputError, Where
from kailab.model.files import LARGEST_FILE, read_bytes
from kailab.undertest.kai.chart.archives import Archive, archive, packed
from kailab.undertest.kai.dialects import Dialect
from kailab.undertest.kai.releases import dialect_of

CHART_ENV = "KAILAB_KAI_CHART"
NAME = "kai-scheduler"

_PUBLISHED = "oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler"
_PUBLISHED_BEFORE = "oci://ghcr.io/nvidia/kai-scheduler/kai-scheduler"
_MOVED = (0, 13, 0)
_UNNUMBERED = "0.0.0"  # as a chart is called in the repository, before it is packed for a release


@dataclass(frozen=True)
class ChartSource:
    """``release``: with its ``v``. ``numbered``: the chart says which release it is; that of KAI's repository does not. ``archives``: of images that the nodes are to be given; none: they pull them."""

    release: str
    dialect: Dialect
    chart: Chart
    numbered: bool = True
    archives: tuple[Archive, ...] = ()

    @property
    def images(self) -> frozenset[str]:
        return frozenset(name for one in self.archives for name in one.images)

    @property
    def registry(self) -> tuple[str, str]:
        """Registry and tag that the images of the archives have; both empty where there are none. Raises InputError for archives
        without KAI's scheduler."""
        if not self.archives:
            return "", ""
        for name in sorted(self.images):
            before, _, tag = name.rpartition(":")
            registry, _, last = before.rpartition("/")
            if last == "scheduler":
                return registry, tag
        raise InputError(f"none of the image archives has KAI's image scheduler: {', '.join(sorted(self.images))}")


def find_chart(release: str, folder: Path | str | None = None) -> ChartSource:
    """``folder``: None for what KAILAB_KAI_CHART names, else the published chart. Raises InputError for a release that is not known,
    and for a folder without its chart."""
    try:
        dialect = dialect_of(release)
    except InputError as error:
        raise InputError(f"kai@{release}: {error.message}") from None
    if dialect is None:
        raise InputError(f"kai@{release}: expected a release of KAI, as in kai@v0.16.8")
    told = str(folder or os.environ.get(CHART_ENV) or "")
    if not told:
        ref = _PUBLISHED if dialect.number >= _MOVED else _PUBLISHED_BEFORE
        return ChartSource(release, dialect, Chart(ref, release))
    place = Path(told).expanduser().absolute()
    if not place.is_dir():
        what = "is a file" if place.exists() else "is not there"
        raise InputError(f"{what}; expected the folder with KAI's chart and images", Where(file=str(place)))
    chart, numbered, others = _chart(place, release)
    archives = [found for path in others if (found := archive(path)) is not None]
    return ChartSource(release, dialect, Chart(str(chart)), numbered, tuple(archives))


def _chart(place: Path, release: str) -> tuple[Path, bool, list[Path]]:
    """The chart of that release, whether it says so, and what is packed and no chart."""
    about: dict[Path, Mapping[str, Any]] = dict(_charts_in_folders(place))
    others = []
    for path in packed(place):
        if (chart := _packed_chart(path)) is None:
            others.append(path)
        else:
            about[path] = chart
    found = {path: str(one.get("version", "")) for path, one in about.items() if one.get("name") == NAME}
    if not found:
        raise InputError(
            f"has no chart {NAME}; expected {NAME}-{release}.tgz or the folder {NAME} of KAI's repository "
            "(deployments/kai-scheduler)",
            Where(file=str(place)),
        )
    fitting = [path for path, version in found.items() if version.removeprefix("v") == release.removeprefix("v")]
    fitting = fitting or [path for path, version in found.items() if version == _UNNUMBERED]
    if len(fitting) == 1:
        return fitting[0], found[fitting[0]] != _UNNUMBERED, others
    if fitting:
        raise InputError(f"has several charts of {release}: {_told(fitting)}", Where(file=str(place)))
    told = ", ".join(f"{path.name} ({version})" for path, version in found.items())
    raise InputError(f"has no chart of {release}; there is {told}", Where(file=str(place)))


def _told(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths)


def _charts_in_folders(place: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for folder in (place, *sorted(place.iterdir())):
        file = folder / "Chart.yaml"
        if file.is_file():
            yield folder, _read(read_bytes(file), file)


def _packed_chart(path: Path) -> Mapping[str, Any] | None:
    if path.suffix == ".tar":
        return None
    try:
        with tarfile.open(path) as content:
            for member in content:
                # A chart's own file, not that of a chart that it brings.
                if member.name.count("/") == 1 and member.name.endswith("/Chart.yaml"):
                    file = content.extractfile(member)
                    return _read(file.read(LARGEST_FILE) if file is not None else b"", path)
                if member.name in ("manifest.json", "index.json", "oci-layout"):
                    return None
    except (OSError, tarfile.TarError, EOFError) as error:
        raise InputError(f"can't be read as an archive: {error}", Where(file=str(path))) from None
    return None


def _read(content: bytes, file: Path) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"its Chart.yaml is no YAML: {error}", Where(file=str(file))) from None
    return found if isinstance(found, dict) else {}
