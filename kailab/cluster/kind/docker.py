"""The Docker engine that kind's nodes run in, asked through the ``docker`` command as kind itself does: images and
containers.

``DOCKER_HOST`` and docker's contexts say which engine that is.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from kailab.cluster.built_images import NODE_COMMAND, NodeImage, NodeImageStore
from kailab.components import DEFAULT_KUBERNETES
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
    raise_if_unavailable(docker_reason())


def raise_if_unavailable(reason: str | None) -> None:
    """Raises ConnectError with a reason why something can't be used; None: it can."""
    if reason is not None:
        raise ConnectError(reason)


def has_image(image: str) -> bool:
    """True if the engine has it already, so that nothing need be pulled."""
    try:
        return _docker("image", "inspect", "--format", "{{.Id}}", image).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def pull_image(image: str) -> str | None:
    """Pull an image. Returns docker's reason if it can't; None: it was pulled."""
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


def image_layers(image: str) -> list[str]:
    """The digests of an image's layers, unpacked: equal in every engine, unlike the image's id. Raises ConnectError."""
    try:
        done = _docker("image", "inspect", "--format", "{{range .RootFS.Layers}}{{.}} {{end}}", image)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConnectError(f"the Docker engine can't be asked for {image}: {error}") from error
    if done.returncode != 0:
        raise ConnectError(f"the Docker engine can't be asked for {image}: {_last_line(done.stderr)}")
    return done.stdout.split()


def remove_image(image: str) -> None:
    """An image that does not exist counts as removed. Raises ConnectError, for example while a container uses it."""
    if not has_image(image):
        return
    done = _docker("image", "rm", image, seconds=PULL_SECONDS)
    if done.returncode != 0:
        raise ConnectError(f"{image}: docker can't remove it: {_last_line(done.stderr)}")


def node_containers(cluster: str, *, running: bool = False) -> list[str]:
    """Names of the containers that are nodes of a kind cluster; ``running``: only those that run. Raises ConnectError."""
    which = () if running else ("--all",)
    try:
        # By kind's own label: names of containers of one cluster may begin with the name of another.
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


Tell = Callable[[str], None]


def default_node_image(kubernetes: str = DEFAULT_KUBERNETES) -> str:
    """The newest that was built here for a Kubernetes release, else the one that kind publishes for it."""
    built = NodeImageStore().newest(kubernetes)
    return built.name if built is not None else f"kindest/node:{kubernetes}"


def image_reason(image: str) -> str | None:
    """Why an image can't be used without pulling it; None: it can."""
    if has_image(image) or NodeImageStore().find(image) is not None:
        return None
    return (
        f"the Docker engine has no node image {image}; pull it, name another one in KAILAB_KIND_IMAGE, or build one: "
        f"`{NODE_COMMAND}` in kailab's source"
    )


def provide_image(image: str, tell: Tell) -> None:
    """Give the Docker engine an image: load it if it was built here, else pull it. Raises ConnectError with docker's
    own reason, StateError if the archive is damaged.

    kind would pull it too, but it retries for long and hides the reason in pages of output."""
    if has_image(image):
        return
    built = NodeImageStore().find(image)
    if built is not None:
        load_built_image(built, tell)
        return
    tell(f"pulling the node image {image}")
    reason = pull_image(image)
    if reason is not None:
        raise ConnectError(
            f"{reason}; name another one in KAILAB_KIND_IMAGE, or build one without an image registry: `{NODE_COMMAND}` in kailab's source"
        )


def load_built_image(image: NodeImage, tell: Tell) -> None:
    """Load an image from its archive, with checks before and after. Raises StateError, ConnectError."""
    archive = NodeImageStore().checked(image)
    tell(f"loading the node image {image.name}")
    load_image(archive)
    if image_layers(image.name) != [image.layer]:
        raise ConnectError(f"the Docker engine has another image of the name {image.name} than the one that was loaded")
