"""Kubernetes objects in files that were written from a cluster: output of ``kubectl get -o yaml|json``, a must-gather, a support bundle.

Unlike manifests (``kailab.model.manifests``), such files may hold other things, lists of objects without a kind (whose kind is in the path, as in
support bundles of troubleshoot.sh), and several values one after the other. ``newest_time`` finds out when the cluster was written, which
such files do not say.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kailab.errors import InputError, Where
from kailab.model import yamltext
from kailab.model.defaults import strip_nulls
from kailab.model.file_trees import TreeFile
from kailab.model.files import decode_text
from kailab.model.kinds import KINDS
from kailab.model.manifests import list_items
from kailab.model.objects import Object
from kailab.model.times import DAY, format_time, time_or_none
from kailab.model.wording import count, some

LARGEST_DOCUMENT = 10_000_000
"""Values in one YAML document. A list of 10,000 pods has some three millions."""
_MESSAGE = re.compile(
    r"\s*(?:Error from server\b|error: |Warning: |No resources found|Unable to connect to the server|[EWI]\d{4} \d\d:\d\d:).*"
)
"""The first line of what kubectl writes to stderr: errors, warnings and its log."""
_BYTE = re.compile(r" \(byte (\d+)\)")


def read_objects(file: TreeFile) -> list[Object]:
    """All Kubernetes objects in a file, without nulls. Raises InputError if the file can't be read or is incomplete."""
    text = decode_text(file.data, file.name)
    try:
        values = list(_values(text, file))
        objects = [strip_nulls(obj) for value in values for obj in _objects(value, file.name)]
        last = values[-1] if values else None
        # A file of objects whose last document has only the first fields of one: a copy that stopped. Alone, it may be a file of another program.
        if (
            objects
            and isinstance(last, dict)
            and "apiVersion" in last
            and list_items(last) is None
            and "metadata" not in last
        ):
            raise InputError("ends in the middle of an object: the file is incomplete", Where(file=file.name))
        return objects
    except InputError:
        if message := _MESSAGE.match(text):
            raise InputError(
                f"begins with a message of kubectl ({message[0].strip():.120}), which belongs to no object; write only what it prints to stdout "
                "to the file (`>`, not `&>`)",
                Where(file=file.name, line=1),
            ) from None
        raise


def was_in_cluster(obj: Object) -> bool:
    """Whether an API server gave the object something: a uid, a time or a status. A manifest has none."""
    meta = obj.get("metadata")
    given = isinstance(meta, dict) and (meta.get("uid") or meta.get("creationTimestamp"))
    return bool(obj.get("status") or given)


def _values(text: str, file: TreeFile) -> Iterator[Any]:
    if not text.lstrip().startswith(("{", "[")):
        for value, _ in yamltext.read_documents(text, file.name, largest=LARGEST_DOCUMENT):
            yield value
        return
    try:
        yield msgspec.json.decode(text)
    except RecursionError:
        raise InputError("nested too deeply", Where(file=file.name)) from None
    except msgspec.DecodeError as error:
        if "trailing characters" in str(error):
            yield from _several(text, file)
            return
        raise _malformed(str(error), text, file) from None


def _several(text: str, file: TreeFile) -> Iterator[Any]:
    """JSON values one after the other, as ``jq '.items[]'`` prints them, or a flow mapping in YAML."""
    decoder, at = json.JSONDecoder(), _next(text, 0)
    values = []
    try:
        while at < len(text):
            value, end = decoder.raw_decode(text, at)
            values.append(value)
            at = _next(text, end)
    except (ValueError, RecursionError):
        # A YAML file may begin with a brace, too.
        values = [value for value, _ in yamltext.read_documents(text, file.name, largest=LARGEST_DOCUMENT)]
    yield from values


_NEXT = re.compile(r"\s*")


def _next(text: str, at: int) -> int:
    match = _NEXT.match(text, at)
    return match.end() if match else at


def _malformed(message: str, text: str, file: TreeFile) -> InputError:
    if "truncated" in message:
        return InputError(
            "ends in the middle of a value: the file is incomplete", Where(file=file.name, line=text.count("\n") + 1)
        )
    found = _BYTE.search(message)
    line = text.encode()[: int(found[1])].count(b"\n") + 1 if found else 0
    return InputError(f"not valid JSON: {_BYTE.sub('', message)}", Where(file=file.name, line=line))


def _objects(value: Any, file: str) -> Iterator[Object]:
    """The Kubernetes objects in a value. Anything else is skipped."""
    if isinstance(value, list):
        kind = _kind_of_path(file)
        for item in value:
            if isinstance(item, dict) and "kind" not in item and kind and isinstance(item.get("metadata"), dict):
                item = {"apiVersion": KINDS[kind].api_version, "kind": KINDS[kind].kind, **item}
            yield from _objects(item, file)
        return
    if not isinstance(value, dict):
        return
    if "kind" not in value and isinstance(value.get("items"), list) and "apiVersion" in value:
        raise InputError(
            "the list at its beginning never ends (it has no kind, which kubectl writes after the items): the file is incomplete",
            Where(file=file),
        )
    items = list_items(value)
    if items is not None:
        for index, item in enumerate(items):
            if not isinstance(item, dict) or not isinstance(item.get("kind"), str):
                found = (
                    f"has no kind (it has {', '.join(map(str, list(item)[:3])) or 'nothing'})"
                    if isinstance(item, dict)
                    else f"is {item!r:.40}"
                )
                raise InputError(
                    f"{found}; expected a Kubernetes object",
                    Where(file=file, object=str(value["kind"]), field=f"items[{index}]"),
                )
            yield from _objects(item, file)
    elif isinstance(value.get("kind"), str) and isinstance(value.get("apiVersion"), str) and "metadata" in value:
        yield value


def _kind_of_path(file: str) -> str:
    """The kind that the nearest part of a path names: ``pods/default.json``, ``storage-classes.json``."""
    names = {kind.plural: key for key, kind in reversed(list(KINDS.items()))}
    parts = file.rpartition(":")[2].split("/")[-2:]
    for part in reversed(parts):
        if key := names.get(part.partition(".")[0].replace("-", "")):
            return key
    return ""


# --- when the cluster was written -------------------------------------------------------------------------------------

_PAST = frozenset(
    {
        "creationTimestamp", "lastTransitionTime", "lastHeartbeatTime", "lastProbeTime", "lastUpdateTime", "startTime", "startedAt",
        "finishedAt", "completionTime", "lastScheduleTime", "lastSuccessfulTime", "firstTimestamp", "lastTimestamp", "eventTime",
        "renewTime", "acquireTime",
    }
)  # fmt: skip
"""Fields with a time that has passed. Others, such as the end of a grace period or of a certificate, may lie ahead."""
CLOCKS_DIFFER_BY = DAY
"""Seconds by which the clock of a cluster may be ahead of this machine's."""


def newest_time(value: Any) -> float | None:
    """The latest time that has passed in an object, in seconds since the epoch; None if it has none."""
    return max(_times(value, ""), default=None)


def time_of_cluster(times: Sequence[tuple[float, str]]) -> tuple[float | None, list[str]]:
    """When a cluster was written, from the newest time of each object and the object's name; None without any. Also returns notices.

    Times that this machine's clock has not reached are left out unless most objects have such: a lab's own clock may lie ahead, but in the
    files of a cluster it is a few objects that some machine with a wrong clock wrote."""
    limit = time.time() + CLOCKS_DIFFER_BY
    past = [seconds for seconds, _ in times if seconds <= limit]
    ahead = sorted((entry for entry in times if entry[0] > limit), reverse=True)
    if not ahead or len(ahead) > len(past):
        return max((seconds for seconds, _ in times), default=None), []
    named = some([f"{title} ({format_time(seconds)})" for seconds, title in ahead])
    return max(past), [
        f"{count(len(ahead), 'object')} with a time in the future: {named}; the clock starts at the newest time of the others, "
        f"{format_time(max(past))}. Another one can be given with --at"
    ]


def _times(value: Any, field: str) -> Iterator[float]:
    if isinstance(value, list):
        for inside in value:
            yield from _times(inside, field)
    elif isinstance(value, dict):
        # Of a spec only that of a Lease says when something was.
        for key, inside in value.items():
            if isinstance(inside, str):
                written = key in _PAST or (key == "time" and field == "managedFields")
                if written and (seconds := time_or_none(inside)) is not None:
                    yield seconds
            elif isinstance(inside, dict | list) and (key != "spec" or value.get("kind") == "Lease"):
                yield from _times(inside, key)
