"""The node image of a cluster: the one that was made here, else what kind publishes; in the Docker engine before kind asks for it."""

from __future__ import annotations

from collections.abc import Callable

from kailab.cluster.kind.engine import has_image, layers, load_image, pull
from kailab.cluster.kind.image.store import NodeImage, Store
from kailab.components import DEFAULT_KUBERNETES
from kailab.errors import ConnectError

Tell = Callable[[str], None]


def node_image(kubernetes: str = DEFAULT_KUBERNETES) -> str:
    """The newest that was made here for a release of Kubernetes, else what kind publishes for it."""
    made = Store().newest(kubernetes)
    return made.name if made is not None else f"kindest/node:{kubernetes}"


def image_reason(image: str) -> str | None:
    """Why an image can't be used without pulling it; None: it can."""
    if has_image(image) or Store().find(image) is not None:
        return None
    return (
        f"the Docker engine has no node image {image}; `kailab kind image build` makes one; else pull it, or name another one in "
        "KAILAB_KIND_IMAGE"
    )


def provide_image(image: str, tell: Tell) -> None:
    """See that the engine has it: load one that was made here, else pull it. Raises ConnectError with docker's own reason,
    StateError where the archive is damaged.

    kind would pull it too, but try again for long and hide the reason in pages of output."""
    if has_image(image):
        return
    made = Store().find(image)
    if made is not None:
        load(made, tell)
        return
    tell(f"pulling the node image {image}")
    reason = pull(image)
    if reason is not None:
        raise ConnectError(
            f"{reason}; `kailab kind image build` makes one without an image registry, KAILAB_KIND_IMAGE names another one"
        )


def load(image: NodeImage, tell: Tell) -> None:
    """From its archive, checked before and after. Raises StateError, ConnectError."""
    archive = Store().checked(image)
    tell(f"loading the node image {image.name}")
    load_image(archive)
    if layers(image.name) != [image.layer]:
        raise ConnectError(f"the Docker engine has another image of the name {image.name} than the one that was loaded")
