"""What commands tell of images that were made here: node images, images of virtual control planes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kailab.cli import terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.cluster.kept_images import ImageStore


def tell_list(store: ImageStore[Any], of: str, output: TextOrJson) -> None:
    """``of``: the field of a record that says which kind's or vCluster's release it is for."""
    from kailab.cli.table import render_table

    found = [
        {
            "name": one.name,
            "kubernetes": one.kubernetes,
            of: getattr(one, of),
            "megabytes": str(one.megabytes),
            "created": one.created,
            "path": str(store.archive(one)),
        }
        for one in store.images()
    ]
    if output is TextOrJson.json:
        terminal.say(json.dumps(found, indent=2))
    elif found:
        terminal.say(render_table([name.upper() for name in found[0]], [list(one.values()) for one in found]))
    else:
        terminal.notice(f"no {store.what} was made here; `{store.command}` makes one")


def tell_one(store: ImageStore[Any], name: str, output: TextOrJson) -> None:
    """Its archive is checked. Raises InputError, StateError."""
    import msgspec

    found = store.get(name)
    store.checked(found)
    told: dict[str, Any] = {**msgspec.to_builtins(found), "path": str(store.archive(found))}
    if output is TextOrJson.json:
        terminal.say(json.dumps(told, indent=2))
        return
    for key, value in told.items():
        if isinstance(value, dict):
            terminal.say("\n".join([f"{key}:", *(f"  {one} {about}" for one, about in value.items())]))
        else:
            terminal.say(f"{key}: {', '.join(value) if isinstance(value, list | tuple) else value}")
