"""What a snapshot of a cluster holds, and its file: sealed (``storage.sealed_file``), its body compressed JSON."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec

from kailab.cluster.embedded.storage.sealed_file import DamagedFile, WrongMagic, check, header_of, seal
from kailab.cluster.protocol import Object
from kailab.errors import InputError, StateError, Where
from kailab.evidence.decision_file import SchedulerDecisions
from kailab.evidence.entries import LabFacts
from kailab.lab.cluster_copies import ClusterCounters
from kailab.model import decoding
from kailab.model.files import read_bytes

MAGIC = "kailab-snapshot"
FORMAT = 1
LARGEST = 4 * 2**30
LEAST_LIMIT = 64 * 2**20
MOST_RATIO = 400
"""A file may unpack to this many times its size, or to ``LEAST_LIMIT`` bytes, and never to more than ``LARGEST``."""


class ClusterSnapshot(msgspec.Struct, kw_only=True):
    """``taken``: seconds since the epoch, on the cluster's clock; ``opened``: when the lab began, where it was one. ``facts``: what
    decided there, on what, and how it was set. ``node_pool``: that of the scheduler. ``embedded``: nobody but the controllers of
    an embedded lab acted on the objects; ``counters`` are its own. ``objects``: by kind key. ``decided``: what its
    scheduler decided until then, where that is known. ``cut``: how many texts were left out; ``left_out``: what could not be read -> why. ``notices``: how decisions here may
    differ. ``anonymised``: names are mapped by a key."""

    taken: float
    opened: float
    facts: LabFacts
    node_pool: str = "default"
    embedded: bool = False
    counters: ClusterCounters = ClusterCounters()
    objects: dict[str, list[Object]]
    decided: SchedulerDecisions = msgspec.field(default_factory=SchedulerDecisions)
    cut: int = 0
    left_out: dict[str, str] = {}
    notices: tuple[str, ...] = ()
    anonymised: bool = False

    @property
    def count(self) -> int:
        """Of its objects."""
        return sum(map(len, self.objects.values()))


def write(path: Path, snapshot: ClusterSnapshot, *, force: bool = False) -> None:
    """Raises InputError where something is there already (unless ``force``), StateError where it can't be written."""
    if path.exists() and not force:
        raise InputError("is there already; give another name, or --force", Where(file=str(path)))
    try:
        seal(path, MAGIC, FORMAT, zlib.compress(msgspec.json.encode(snapshot, order="deterministic"), 6))
    except OSError as error:
        raise StateError(f"{path}: the snapshot can't be written: {error.strerror or error}") from error


def is_snapshot(data: bytes) -> bool:
    """Whether a file claims to be one."""
    try:
        header_of(data, MAGIC)
    except WrongMagic:
        return False
    return True


def read(path: Path) -> ClusterSnapshot:
    """Raises InputError for a file that is damaged, of another format, or none of kailab's snapshots."""
    data, place = read_bytes(path, LARGEST), Where(file=str(path))
    try:
        header, body = header_of(data, MAGIC)
    except WrongMagic:
        raise InputError("is no snapshot of kailab's, or its beginning is damaged", place) from None
    if header.version != FORMAT:
        whose = "a newer" if header.version > FORMAT else "an older"
        raise InputError(
            f"is in format {header.version}, of {whose} kailab; this one reads format {FORMAT}: take the snapshot again",
            place,
        )
    try:
        check(header, body)
        found = decoding.decode_json(unpacked(body), ClusterSnapshot)
    except TooLarge as error:
        raise InputError(str(error), place) from None
    except (DamagedFile, zlib.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"damaged: {error}", place) from None
    for kind, objects in found.objects.items():
        for number, obj in enumerate(objects):
            if not isinstance(meta := obj.get("metadata"), dict) or not isinstance(meta.get("name"), str):
                raise InputError("damaged: expected a name", Where(str(path), 0, f"{kind} {number}", "metadata.name"))
    return found


class TooLarge(ValueError):
    """Something unpacks to more than can be meant."""


def most_unpacked(packed: int) -> int:
    """Bytes that so many packed ones may become."""
    return min(LARGEST, max(LEAST_LIMIT, MOST_RATIO * packed))


def unpacked(body: bytes) -> bytes:
    """Raises TooLarge, zlib.error."""
    most = most_unpacked(len(body))
    decompressor = zlib.decompressobj()
    found = decompressor.decompress(body, most + 1)
    if len(found) > most:
        raise TooLarge(told_too_large(len(body), most))
    if not decompressor.eof:
        raise zlib.error("the compressed part ends early")
    return found


def told_too_large(packed: int, most: int) -> str:
    return (
        f"unpacks to more than {most // 2**20} MiB, from {max(1, packed // 2**20)} MiB: not what a cluster looks like"
    )
