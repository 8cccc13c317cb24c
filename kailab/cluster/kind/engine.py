"""The Docker engine that kind's nodes run in, asked through the docker command as kind itself does.

``DOCKER_HOST`` and docker's contexts say which engine that is.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from kailab.errors import ConnectError

ANSWER_SECONDS = 10.0
PULL_SECONDS = 900.0


def docker_reason() -> str | None:
    """Why no Docker engine can be used here; None if one answers."""
    if shutil.which("docker") is None:
        return "there is no docker command here; kind needs a Docker engine"
    try:
        done = _docker("version", "--format", "{{.Server.Version}}")
    except subprocess.TimeoutExpired:
        return f"the Docker engine did not answer in {ANSWER_SECONDS:.0f} s; is it up?"
    except OSError as error:
        return f"docker can't be run: {error}"
    if done.returncode != 0:
        return f"the Docker engine can't be reached: {_last_line(done.stderr)}"
    return None


def check_docker() -> None:
    """Raises ConnectError where no Docker engine answers."""
    demand(docker_reason())


def demand(reason: str | None) -> None:
    """Raises ConnectError with the reason why something can't be used; None: it can."""
    if reason is not None:
        raise ConnectError(reason)


def has_image(image: str) -> bool:
    """Whether the engine has it already, so that nothing need be pulled."""
    try:
        return _docker("image", "inspect", "--format", "{{.Id}}", image).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def pull(image: str) -> str | None:
    """Why it can't be pulled, with docker's own reason; None: it was."""
    try:
        done = _docker("pull", "--quiet", image, seconds=PULL_SECONDS)
    except subprocess.TimeoutExpired:
        return f"the node image {image} was not here after {PULL_SECONDS:.0f} s of docker pull"
    except OSError as error:
        return f"docker can't be run: {error}"
    if done.returncode != 0:
        return f"the node image {image} is not here and can't be pulled: {_last_line(done.stderr)}"
    return None


def load_image(archive: Path) -> None:
    """Raises ConnectError."""
    try:
        done = _docker("load", "--quiet", "--input", str(archive), seconds=PULL_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConnectError(f"{archive}: docker can't load it: {error}") from error
    if done.returncode != 0:
        raise ConnectError(f"{archive}: docker can't load it: {_last_line(done.stderr)}")


def layers(image: str) -> list[str]:
    """The digests of an image's layers, unpacked: the same in every engine, as an image's id is not. Raises ConnectError."""
    try:
        done = _docker("image", "inspect", "--format", "{{range .RootFS.Layers}}{{.}} {{end}}", image)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConnectError(f"the Docker engine can't be asked for {image}: {error}") from error
    if done.returncode != 0:
        raise ConnectError(f"the Docker engine can't be asked for {image}: {_last_line(done.stderr)}")
    return done.stdout.split()


def remove_image(image: str) -> None:
    """One that is not there is as good as removed. Raises ConnectError, as where a container uses it."""
    if not has_image(image):
        return
    done = _docker("image", "rm", image, seconds=PULL_SECONDS)
    if done.returncode != 0:
        raise ConnectError(f"{image}: docker can't remove it: {_last_line(done.stderr)}")


def containers(cluster: str, *, running: bool = False) -> list[str]:
    """Names of the containers that are nodes of a kind cluster; ``running``: only those that run. Raises ConnectError."""
    which = () if running else ("--all",)
    try:
        # kind's own label: names of containers of one cluster may begin with the name of another.
        done = _docker("ps", *which, "--filter", f"label=io.x-k8s.kind.cluster={cluster}", "--format", "{{.Names}}")
    except (OSError, subprocess.SubprocessError) as error:
        raise ConnectError(f"the Docker engine can't be asked for its containers: {error}") from error
    if done.returncode != 0:
        raise ConnectError(f"the Docker engine can't be reached: {_last_line(done.stderr)}")
    return sorted(done.stdout.split())


def _docker(*arguments: str, seconds: float = ANSWER_SECONDS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "docker gave no reason"
