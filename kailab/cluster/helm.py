"""Helm: the program is looked up on this machine and run as its users run it, to render and install charts.

``missing_image`` recognizes a pod whose image the cluster cannot get: waiting for that pod would not help.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kailab.cluster.protocol import Object
from kailab.components import HELM, find_program
from kailab.components.process_group import process_group, wait_for_end
from kailab.errors import ConnectError, InputError

HELM_VARIABLE = "KAILAB_HELM"
_ANSWER_SECONDS = 120.0
_LAST_LINES = 6


class HelmFailed(ConnectError):
    """Helm ended with an error; the text has its last words."""


class Chart(NamedTuple):
    """``ref``: a folder, an archive or an ``oci://`` address. ``version``: of the registry's, empty for one that is here."""

    ref: str
    version: str = ""

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.ref, *(("--version", self.version) if self.version else ()))


class Release(NamedTuple):
    """What Helm calls an installed chart: its name, and the namespace that it keeps its records in."""

    name: str
    namespace: str


def find_helm(path: Path | None = None) -> Path:
    """The helm program: this one, else KAILAB_HELM's, else PATH's, else the cache's. Raises ConnectError, DamagedComponent."""
    how = "`kailab components get --helm` downloads it, or builds it with Go"
    return find_program(HELM, HELM_VARIABLE, how, path)


@dataclass(frozen=True)
class Helm:
    """``kubeconfig`` None: no cluster is asked."""

    program: Path
    kubeconfig: Path | None = None
    context: str | None = None

    def template(self, release: Release, chart: Chart, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The objects that a chart makes, hooks too, without its definitions; no cluster is asked. Raises HelmFailed."""
        with _AsFile(values) as path:
            said = self._run("template", release.name, *chart.arguments, "--namespace", release.namespace, "-f", path)
        return _documents(said)

    def definitions(self, chart: Chart) -> list[dict[str, Any]]:
        """The CustomResourceDefinitions that come with a chart. Raises HelmFailed."""
        return _documents(self._run("show", "crds", *chart.arguments))

    def package(self, chart: Chart, version: str, folder: Path) -> Chart:
        """A chart that is a folder, packed under a version, as a release of it is. Raises HelmFailed."""
        before = set(folder.iterdir())
        self._run("package", chart.ref, "--version", version, "--app-version", version, "-d", str(folder))
        (made,) = set(folder.iterdir()) - before
        return Chart(str(made))

    def install(
        self,
        release: Release,
        chart: Chart,
        values: Mapping[str, Any],
        seconds: float,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """Returns when all that the chart itself makes is ready. ``look``: called all the while; what it raises ends Helm. Raises
        HelmFailed."""
        with _AsFile(values) as path:
            self._run(
                "install", release.name, *chart.arguments, "--namespace", release.namespace, "--create-namespace",
                # Priority classes and namespaces may be there before, as labs make them.
                "--take-ownership", "--wait", "--timeout", f"{seconds:.0f}s", "-f", path,
                seconds=seconds + _ANSWER_SECONDS, look=look,
            )  # fmt: skip

    def uninstall(self, release: Release, seconds: float) -> None:
        """One that is not there is as good as removed. Its hooks are left out: their Jobs need images, which may be what is
        missing. Raises HelmFailed."""
        self._run(
            "uninstall", release.name, "--namespace", release.namespace, "--ignore-not-found", "--no-hooks", "--wait",
            "--timeout", f"{seconds:.0f}s",
            seconds=seconds + _ANSWER_SECONDS,
        )  # fmt: skip

    def _run(self, *arguments: str, seconds: float = _ANSWER_SECONDS, look: Callable[[], None] = lambda: None) -> str:
        where = [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig is not None else []
        where += [f"--kube-context={self.context}"] if self.context else []
        with (
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
            process_group([str(self.program), *arguments, *where], stdout=output, stderr=errors) as process,
        ):
            if not wait_for_end(process, seconds, look):
                raise HelmFailed(f"helm {arguments[0]} did not end within {seconds:.0f} s")
            output.seek(0), errors.seek(0)
            said, complained = output.read().decode("utf-8", "replace"), errors.read().decode("utf-8", "replace")
        if process.returncode:
            lines = [line.strip() for line in complained.splitlines() if line.strip()]
            raise HelmFailed(
                f"helm {arguments[0]} failed: {'; '.join(lines[-_LAST_LINES:])[:1500] or 'it said nothing'}"
            )
        return said


class _AsFile:
    """Values as a file for Helm."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __enter__(self) -> str:
        handle, self._path = tempfile.mkstemp(prefix="kailab-values-", suffix=".yaml")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yaml.safe_dump(dict(self._values), file, sort_keys=False)
        return self._path

    def __exit__(self, *_: object) -> None:
        Path(self._path).unlink(missing_ok=True)


def _documents(text: str) -> list[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # definitions are long
    try:
        return [one for one in yaml.load_all(text, loader) if isinstance(one, dict)]
    except yaml.YAMLError as error:
        raise InputError(f"what Helm rendered is no YAML: {error}") from None


_REFUSED = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName")
_LONGEST = 300


def missing_image(pod: Object) -> str:
    """``pod NAME has no image IMAGE: why``; empty where each container has its own, or has not asked for it yet."""
    status = pod.get("status") or {}
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _REFUSED:
            told = " ".join(str(waiting.get("message") or waiting["reason"]).split())[:_LONGEST]
            return f"pod {pod['metadata']['name']} has no image {container.get('image')}: {told}"
    return ""
