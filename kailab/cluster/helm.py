"""Helm: the program is looked up on this machine and run as its users run it, to render and install charts.

``missing_image`` recognizes a pod whose image the cluster cannot get: waiting for that pod would not help.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
    """Helm ended with an error; the message has its last lines."""


class Chart(NamedTuple):
    """``ref``: a folder, an archive or an ``oci://`` address. ``version``: in a registry; empty for a local chart."""

    ref: str
    version: str = ""

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.ref, *(("--version", self.version) if self.version else ()))


class Release(NamedTuple):
    """An installed chart: its name, and the namespace that holds Helm's records."""

    name: str
    namespace: str


def find_helm() -> Path:
    """The helm program: KAILAB_HELM, else in PATH, else in the cache. Raises ConnectError,
    DamagedComponent."""
    how = "`kailab components get --helm` downloads it, or builds it with Go"
    return find_program(HELM, HELM_VARIABLE, how)


@dataclass(frozen=True)
class Helm:
    """Runs the helm program. ``kubeconfig`` None: commands that need no cluster."""

    program: Path
    kubeconfig: Path | None = None
    context: str | None = None

    def template(self, release: Release, chart: Chart, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Render a chart, hooks included, CustomResourceDefinitions excluded; no cluster is asked. Raises HelmFailed."""
        with _as_file(values) as path:
            rendered = self._run(
                "template", release.name, *chart.arguments, "--namespace", release.namespace, "-f", path
            )
        return _documents(rendered)

    def definitions(self, chart: Chart) -> list[dict[str, Any]]:
        """The CustomResourceDefinitions of a chart. Raises HelmFailed."""
        return _documents(self._run("show", "crds", *chart.arguments))

    def package(self, chart: Chart, version: str, folder: Path) -> Chart:
        """Pack a chart's folder under a version number, as a release would be. Raises HelmFailed."""
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
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Return when everything in the chart is ready. ``check``: called repeatedly meanwhile; an exception from it
        ends Helm. Raises HelmFailed."""
        with _as_file(values) as path:
            self._run(
                "install", release.name, *chart.arguments, "--namespace", release.namespace, "--create-namespace",
                # Labs create priority classes and namespaces that the chart also has.
                "--take-ownership", "--wait", "--timeout", f"{seconds:.0f}s", "-f", path,
                seconds=seconds + _ANSWER_SECONDS, check=check,
            )  # fmt: skip

    def uninstall(self, release: Release, seconds: float) -> None:
        """A release that does not exist counts as removed. Hooks do not run: their Jobs need images, which may be
        unavailable. Raises HelmFailed."""
        self._run(
            "uninstall", release.name, "--namespace", release.namespace, "--ignore-not-found", "--no-hooks", "--wait",
            "--timeout", f"{seconds:.0f}s",
            seconds=seconds + _ANSWER_SECONDS,
        )  # fmt: skip

    def _run(self, *arguments: str, seconds: float = _ANSWER_SECONDS, check: Callable[[], None] = lambda: None) -> str:
        where = [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig is not None else []
        where += [f"--kube-context={self.context}"] if self.context else []
        with (
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
            process_group([str(self.program), *arguments, *where], stdout=output, stderr=errors) as process,
        ):
            if not wait_for_end(process, seconds, check):
                raise HelmFailed(f"helm {arguments[0]} did not end within {seconds:.0f} s")
            output.seek(0), errors.seek(0)
            text, error_text = output.read().decode("utf-8", "replace"), errors.read().decode("utf-8", "replace")
        if process.returncode:
            lines = [line.strip() for line in error_text.splitlines() if line.strip()]
            raise HelmFailed(
                f"helm {arguments[0]} failed: {'; '.join(lines[-_LAST_LINES:])[:1500] or 'it printed nothing'}"
            )
        return text


@contextmanager
def _as_file(values: Mapping[str, Any]) -> Iterator[str]:
    """Chart values as a temporary file."""
    with tempfile.NamedTemporaryFile("w", prefix="kailab-values-", suffix=".yaml", encoding="utf-8") as file:
        yaml.safe_dump(dict(values), file, sort_keys=False)
        file.flush()
        yield file.name


def _documents(text: str) -> list[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the fast loader: definitions are long
    try:
        return [document for document in yaml.load_all(text, loader) if isinstance(document, dict)]
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"what Helm rendered is no YAML: {error}") from None


_REFUSED = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName")
_LONGEST = 300


def missing_image(pod: Object) -> str:
    """``pod NAME has no image IMAGE: why``; empty if each container has its image, or has not requested it yet."""
    status = pod.get("status") or {}
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _REFUSED:
            reason = " ".join(str(waiting.get("message") or waiting["reason"]).split())[:_LONGEST]
            return f"pod {pod['metadata']['name']} has no image {container.get('image')}: {reason}"
    return ""
