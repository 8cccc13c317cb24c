"""The content of a snapshot, and its file: sealed (``storage.sealed_file``), with compressed JSON as its body."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec

from kailab.cluster.embedded.storage.sealed_file import DamagedFile, WrongMagic, check_body, header_of, seal
from kailab.cluster.protocol import Object
from kailab.errors import InputError, StateError, Where, os_errors_as
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
"""A file may unpack to this many times its size, or to ``LEAST_LIMIT`` bytes, but never to more than ``LARGEST``."""


class ClusterSnapshot(msgspec.Struct, kw_only=True):
    """``taken``: seconds since the epoch, on the cluster's clock; ``opened``: when the lab began, if it was one. ``facts``: the scheduler
    there and its settings. ``node_pool``: of the scheduler. ``embedded``: only the controllers of an embedded lab acted on the objects;
    ``counters`` are its own. ``objects``: by kind key. ``decided``: the decisions so far, if they are known. ``cut``: the number of texts
    that were left out; ``left_out``: kinds that could not be read -> reason. ``notices``: why decisions here may differ. ``anonymised``:
    names were replaced with a key."""

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
        """The number of objects."""
        return sum(map(len, self.objects.values()))


def write_snapshot(path: Path, snapshot: ClusterSnapshot, *, force: bool = False) -> None:
    """Raises InputError if the file exists already (unless ``force``), StateError if it can't be written."""
    if path.exists() and not force:
        raise InputError("exists already; give another name, or --force", Where(file=str(path)))
    with os_errors_as(StateError, f"{path}: the snapshot can't be written"):
        seal(path, MAGIC, FORMAT, zlib.compress(msgspec.json.encode(snapshot, order="deterministic"), 6))


def is_snapshot(data: bytes) -> bool:
    """Whether the data begins like a snapshot."""
    try:
        header_of(data, MAGIC)
    except WrongMagic:
        return False
    return True


def read_snapshot(path: Path) -> ClusterSnapshot:
    """Raises InputError for a file that is damaged, has another format, or is no snapshot of kailab's."""
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
        check_body(header, body)
        result = decoding.decode_json(unpack_body(body), ClusterSnapshot)
    except TooLarge as error:
        raise InputError(str(error), place) from None
    except (DamagedFile, zlib.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"damaged: {error}", place) from None
    for kind, objects in result.objects.items():
        for number, obj in enumerate(objects):
            if not isinstance(meta := obj.get("metadata"), dict) or not isinstance(meta.get("name"), str):
                raise InputError("damaged: expected a name", Where(str(path), 0, f"{kind} {number}", "metadata.name"))
    return result


class TooLarge(ValueError):
    """Data unpacks to more than is plausible."""


def most_unpacked(packed: int) -> int:
    """The largest number of bytes that this many packed ones may become."""
    return min(LARGEST, max(LEAST_LIMIT, MOST_RATIO * packed))


def unpack_body(body: bytes) -> bytes:
    """Raises TooLarge, zlib.error."""
    most = most_unpacked(len(body))
    decompressor = zlib.decompressobj()
    result = decompressor.decompress(body, most + 1)
    if len(result) > most:
        raise TooLarge(too_large_message(len(body), most))
    if not decompressor.eof:
        raise zlib.error("the compressed part ends early")
    return result


def too_large_message(packed: int, most: int) -> str:
    return f"unpacks to more than {most // 2**20} MiB, from {max(1, packed // 2**20)} MiB, which is not plausible for a cluster"
