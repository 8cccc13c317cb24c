"""An operator as a process of a control plane: its kinds, its webhooks, its end.

The program here is a stand-in with manifests of the same form, which answers whatever it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kailab.cli.main import app
from kailab.components import ADDONS, ComponentCache, ComponentSet
from kailab.components.manifests import write_manifests
from kailab.lab import Lab
from kailab.lab.venues.plane import PlaneVenue, open_plane
from kailab.operators import OperatorFailed
from tests import webhookserver

pytestmark = pytest.mark.slow

PROGRAM, MANIFESTS = ADDONS["jobset"]
KEPT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "jobsets.jobset.x-k8s.io"},
    "spec": {
        "group": "jobset.x-k8s.io",
        "names": {"kind": "JobSet", "plural": "jobsets", "singular": "jobset", "listKind": "JobSetList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": KEPT},
                "subresources": {"status": {}},
            }
        ],
    },
}
SERVICE = {"service": {"name": "webhook-service", "namespace": "system", "path": "/validate-jobset"}}
HOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "validating"},
    "webhooks": [
        {
            "name": "vjobset.kb.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": SERVICE,
            "rules": [
                {
                    "apiGroups": ["jobset.x-k8s.io"],
                    "apiVersions": ["v1alpha2"],
                    "operations": ["CREATE"],
                    "resources": ["jobsets"],
                }
            ],
        }
    ],
}
FILES = {
    "config/components/crd/bases/jobsets.yaml": DEFINITION,
    "config/components/webhook/kustomization.yaml": {
        "resources": ["manifests.yaml"],
        "patches": [{"path": "name.yaml", "target": {"kind": "ValidatingWebhookConfiguration"}}],
    },
    "config/components/webhook/manifests.yaml": HOOK,
    "config/components/webhook/name.yaml": [{"op": "replace", "path": "/metadata/name", "value": "own"}],
}


@pytest.fixture(scope="module")
def cache(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache with a stand-in for JobSet, and no other add-on."""
    folder = tmp_path_factory.mktemp("cache")
    for path, content in FILES.items():
        file = folder / "module" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(content))
    write_manifests(folder / MANIFESTS.name, folder / "module", ("config",))
    (folder / PROGRAM.name).write_bytes(webhookserver.program())
    with pytest.MonkeyPatch.context() as patched:
        # The programs of the plane itself are found as before.
        patched.setenv("KAILAB_COMPONENTS", str(folder / "programs"))
        (folder / "programs").mkdir()
        for name, path in components.paths.items():
            (folder / "programs" / name).symlink_to(path)
        patched.setenv("XDG_CACHE_HOME", str(folder / "xdg"))
        for pin in (PROGRAM, MANIFESTS):
            ComponentCache().put(pin, folder / pin.name, "adopted", "a test")
        yield folder


@pytest.fixture
def venue(cache: Path) -> Iterator[PlaneVenue]:
    opened = open_plane("controlplane", operators="jobset")
    yield opened
    opened.close()


def job_set(name: str) -> dict[str, object]:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicatedJobs": []},
    }


def test_its_kinds_outlast_a_lab_and_its_end_is_told(
    venue: PlaneVenue, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    log = venue.plane.log("jobset")
    for name in ("first", "second"):
        with Lab.open(backend="controlplane", venue=venue) as lab:
            lab.cluster.create(job_set(name))
            with pytest.raises(Exception, match="denied the request"):
                lab.cluster.create(job_set(f"{name}-refused"))
            assert f"asked /validate-jobset JobSet in default: {name}" in log.read_text()
        # What the lab brought is gone, what makes something of it is not.
        assert venue.cluster.list("JobSet") == []
    lab = Lab.open(backend="controlplane", venue=venue)
    try:
        venue.plane.kill("jobset")
        eventually(lambda: not {one.name: one for one in venue.plane.processes()}["jobset"].running)
        with pytest.raises(OperatorFailed, match="jobset does not run: it was killed by SIGKILL"):
            lab.settle()
    finally:
        lab.close()
    with pytest.raises(OperatorFailed, match="jobset does not run"):
        Lab.open(backend="controlplane", venue=venue)


def test_one_that_does_not_start_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    kept = ComponentCache().path(PROGRAM).read_bytes()
    try:
        (tmp_path / "ends").write_text("#!/bin/sh\necho 'Unable to load the configuration'\nexit 3\n")
        ComponentCache().put(PROGRAM, tmp_path / "ends", "adopted", "a test")
        with pytest.raises(
            OperatorFailed, match=r"(?s)jobset does not run: .*code 3.*Unable to load the configuration"
        ):
            open_plane("controlplane", folder=tmp_path / "plane", operators="jobset")
    finally:
        (tmp_path / "before").write_bytes(kept)
        ComponentCache().put(PROGRAM, tmp_path / "before", "adopted", "a test")
    assert not (tmp_path / "plane").exists()


def test_a_lab_from_the_command_line(
    cache: Path, tmp_path: Path, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    state = ["--state", str(tmp_path / "lab.state")]
    plane = ["up", *state, "--backend", "controlplane"]

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, arguments)
        return done.exit_code, done.stdout + done.stderr

    assert run(*plane, "--with", "jobset")[0] == 0
    try:
        code, said = run("status", *state)
        assert code == 0
        assert "jobset" in next(line for line in said.splitlines() if line.startswith("Processes"))
        assert run(*plane, "--with", "jobset,jobset")[0] == 0
        code, said = run(*plane, "--with", "lws")
        assert code == 2
        assert "--with: requested lws, existing jobset" in said
        found = Lab.resume(tmp_path / "lab.state")
        process = {one.name: one for one in found.venue.processes()}["jobset"]
        found.venue.plane.kill("jobset")  # type: ignore[attr-defined]
        found.close()
        eventually(lambda: "Ended      jobset (it was killed by SIGKILL" in run("status", *state)[1])
        code, said = run("run", *state)
        assert code == 1
        assert "jobset does not run: it was killed by SIGKILL" in said
        assert process.running
    finally:
        assert run("down", *state)[0] == 0
    assert not (tmp_path / "controlplane").exists()
