"""The Docker engine that kind's nodes run in, asked through the ``docker`` command as kind itself does: images and
containers.

``DOCKER_HOST`` and docker's contexts say which engine that is.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from kailab.cluster.built_images import NODE_COMMAND, NodeImage, NodeImageStore
from kailab.components import DEFAULT_KUBERNETES
from kailab.components.process_group import run_command
from kailab.errors import ConnectError
from kailab.model.callbacks import Tell

ANSWER_SECONDS = 10.0
PULL_SECONDS = 900.0


def docker_reason() -> str | None:
    """Why no Docker engine can be used here; None if one answers."""
    if shutil.which("docker") is None:
        return "there is no docker command here; kind needs a Docker engine"
    late = f"the Docker engine did not answer in {ANSWER_SECONDS:.0f} s; is it up?"
    return _failure(
        "version", "--format", "{{.Server.Version}}", late=late, problem="the Docker engine can't be reached"
    )


def check_docker() -> None:
    """Raises ConnectError where no Docker engine answers."""
    raise_if_unavailable(docker_reason())


def raise_if_unavailable(reason: str | None) -> None:
    """Raise ConnectError with the reason why something can't be used; None: it can."""
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
    late = f"the node image {image} was not here after {PULL_SECONDS:.0f} s of docker pull"
    problem = f"the node image {image} is not here and can't be pulled"
    return _failure("pull", "--quiet", image, late=late, problem=problem, seconds=PULL_SECONDS)


def load_image(archive: Path) -> None:
    """Raises ConnectError."""
    _answer(
        "load", "--quiet", "--input", str(archive), problem=f"{archive}: docker can't load it", seconds=PULL_SECONDS
    )


def image_layers(image: str) -> list[str]:
    """The digests of an image's layers, unpacked: equal in every engine, unlike the image's id. Raises ConnectError."""
    layers = "{{range .RootFS.Layers}}{{.}} {{end}}"
    problem = f"the Docker engine can't be asked for {image}"
    return _answer("image", "inspect", "--format", layers, image, problem=problem).split()


def remove_image(image: str) -> None:
    """An image that does not exist counts as removed. Raises ConnectError, for example while a container uses it."""
    if has_image(image):
        _answer("image", "rm", image, problem=f"{image}: docker can't remove it", seconds=PULL_SECONDS)


def node_containers(cluster: str, *, running: bool = False) -> list[str]:
    """Names of the containers that are nodes of a kind cluster; ``running``: only those that run. Raises ConnectError."""
    which = () if running else ("--all",)
    # By kind's own label: names of containers of one cluster may begin with the name of another.
    label = f"label=io.x-k8s.kind.cluster={cluster}"
    problem = "the Docker engine can't be asked for its containers"
    return sorted(_answer("ps", *which, "--filter", label, "--format", "{{.Names}}", problem=problem).split())


def _failure(*arguments: str, late: str, problem: str, seconds: float = ANSWER_SECONDS) -> str | None:
    """Why a docker command failed; None: it did not. ``late``: the reason if it took too long; ``problem``: precedes docker's own."""
    try:
        done = _docker(*arguments, seconds=seconds)
    except subprocess.TimeoutExpired:
        return late
    except OSError as error:
        return f"docker can't be run: {error}"
    return f"{problem}: {_last_line(done.stderr)}" if done.returncode else None


def _answer(*arguments: str, problem: str, seconds: float = ANSWER_SECONDS) -> str:
    """The output of a docker command. Raises ConnectError: ``problem``, and why."""
    try:
        done = _docker(*arguments, seconds=seconds)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConnectError(f"{problem}: {error}") from error
    if done.returncode != 0:
        raise ConnectError(f"{problem}: {_last_line(done.stderr)}")
    return done.stdout


def _docker(*arguments: str, seconds: float = ANSWER_SECONDS) -> subprocess.CompletedProcess[str]:
    return run_command(["docker", *arguments], seconds)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "docker gave no reason"


def default_node_image(kubernetes: str = DEFAULT_KUBERNETES) -> str:
    """The newest that was built here for a Kubernetes release, else the one that kind publishes for it."""
    built = NodeImageStore().newest(kubernetes)
    return built.name if built is not None else f"kindest/node:{kubernetes}"


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
