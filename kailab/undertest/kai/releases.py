"""What differs between releases of KAI, as far as a lab has to do with it: the CRDs that each reads, the flags that each has.

Source: deployments/kai-scheduler/crds and cmd/*/app/options of its tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kailab.errors import InputError
from kailab.model.kinds import KINDS

_NUMBER = re.compile(r"\bv(\d+)\.(\d+)\.\d+")


class Release(NamedTuple):
    """``since``: the first release (major, minor) that it holds for. ``crds``: name -> the version that KAI and labs read and write.
    ``binder_plugins``: its binder can be told which of its plugins to leave out."""

    since: tuple[int, int]
    crds: Mapping[str, str]
    binder_plugins: bool


# The versions of the newest releases are those that kailab.kinds.kai has first; an older release says where it differs.
_CRDS = {KINDS[kind].resource: KINDS[kind].versions[0] for kind in ("Queue", "PodGroup", "BindRequest", "Topology")}

RELEASES = (
    Release((0, 15), _CRDS, binder_plugins=True),
    Release((0, 12), _CRDS, binder_plugins=False),
)
"""The newest first."""


def release_of(version: str) -> Release:
    """What holds for a version (``v0.16.8``, or text with one in it); for one that tells none, what holds for the newest. Raises
    InputError for one that is too old."""
    found = _NUMBER.search(version)
    number = (int(found[1]), int(found[2])) if found is not None else (0, 0)
    if number == (0, 0):  # a pseudo-version tells a commit
        return RELEASES[0]
    for release in RELEASES:
        if number >= release.since:
            return release
    oldest = "v{}.{}".format(*RELEASES[-1].since)
    raise InputError(
        f"is KAI v{number[0]}.{number[1]}; expected {oldest} or newer: older ones have no Topology of their own, and other programs"
    )
