"""Which kinds a server serves, under which paths, and all objects of a kind, listed page by page.

The answers of the server are remembered. A kind that it does not serve is asked for again after a few seconds: CRDs come and
go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from kailab.cluster.kubernetes.apiclient.decoding import SharingDecoder
from kailab.cluster.kubernetes.apiclient.transport import HttpAnswer, Transport, refusal
from kailab.cluster.protocol import Object
from kailab.errors import Invalid, NotFound
from kailab.model import decoding
from kailab.model.kinds import KINDS, key_of

_AGAIN_SECONDS = 5.0


class ApiResource(NamedTuple):
    """One kind on a server. ``status``: it has a status subresource."""

    key: str
    kind: str
    api_version: str
    plural: str
    namespaced: bool
    status: bool

    def space(self, namespace: str | None) -> str | None:
        """The namespace of an object for which this one was given; None for a cluster-wide kind."""
        return (namespace or "default") if self.namespaced else None

    def path(
        self, namespace: str | None = None, name: str = "", sub: str = "", query: Mapping[str, str | int] | None = None
    ) -> str:
        """``namespace`` None: all namespaces (for lists), or a cluster-wide kind."""
        parts = [_root(self.api_version) + self.api_version]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts += [part for part in (self.plural, quote(name, safe=""), sub) if part]
        return "/".join(parts) + (f"?{urlencode(query)}" if query else "")


def _root(api_version: str) -> str:
    return "/apis/" if "/" in api_version else "/api/"


class _ResourceEntry(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False


class _ResourceList(msgspec.Struct):
    resources: list[_ResourceEntry] = []


class _Version(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, rename="camel"):
    preferred_version: _Version
    versions: list[_Version] = []


class ApiResources:
    """The kinds that a server serves. ``ask``: GETs a path."""

    def __init__(self, ask: Callable[[str], HttpAnswer]) -> None:
        self._ask = ask
        self._lists: dict[str, tuple[float, dict[str, ApiResource]]] = {}
        self._found: dict[str, ApiResource] = {}

    def of(self, key: str) -> ApiResource:
        """By kind key, in the newest version that both kailab and the server know. Raises NotFound."""
        if (known := self._found.get(key)) is not None:
            return known
        for api_version in self._versions(key):
            resource = self._served(api_version, lambda served: served.key == key)
            if resource is not None:
                self._found[key] = resource
                return resource
        raise NotFound(f"the server has no kind {key}")

    def of_object(self, obj: Object) -> ApiResource:
        """By the object's apiVersion and kind. Raises Invalid or NotFound."""
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
            raise Invalid("an object needs apiVersion and kind", "kind")
        resource = self._served(api_version, lambda served: served.kind == kind)
        if resource is None:
            raise NotFound(f"the server has no kind {kind} in {api_version}")
        return resource

    def forget(self, key: str) -> None:
        """Ask anew next time: the server does not find the kind any more."""
        resource = self._found.pop(key, None)
        if resource is not None:
            self._lists.pop(resource.api_version, None)

    def _versions(self, key: str) -> list[str]:
        known = KINDS.get(key)
        if known is not None:
            return [f"{known.group}/{version}" if known.group else version for version in known.versions]
        _, _, group = key.partition(".")
        if not group:
            return ["v1"]
        answer = self._ask(f"/apis/{quote(group, safe='.')}")
        if answer.code != 200:
            return []
        description = decoding.decode_json(answer.body, _Group)
        # For a kind that kailab does not know, the server's preferred version.
        first = description.preferred_version.group_version
        return [first, *(v.group_version for v in description.versions if v.group_version != first)]

    def _served(self, api_version: str, fits: Callable[[ApiResource], bool]) -> ApiResource | None:
        known = self._lists.get(api_version)
        if known is not None:
            resource = next(filter(fits, known[1].values()), None)
            # A missing kind is remembered for seconds only: a CRD may be on its way, even into a version that has other
            # kinds.
            if resource is not None or time.monotonic() - known[0] < _AGAIN_SECONDS:
                return resource
        return next(filter(fits, self._listed(api_version).values()), None)

    def _listed(self, api_version: str) -> dict[str, ApiResource]:
        answer = self._ask(_root(api_version) + quote(api_version, safe="/."))
        resources: dict[str, ApiResource] = {}
        if answer.code == 200:
            listed = decoding.decode_json(answer.body, _ResourceList).resources
            names = {entry.name for entry in listed}
            for entry in listed:
                if "/" not in entry.name and entry.kind not in resources:  # not a subresource
                    key = key_of(api_version, entry.kind)
                    has_status = f"{entry.name}/status" in names
                    resources[entry.kind] = ApiResource(
                        key, entry.kind, api_version, entry.name, entry.namespaced, has_status
                    )
        # An error does not mean that the server lacks the kind.
        elif answer.code != 404:
            raise refusal(answer.code, answer.body, f"GET {api_version}")
        self._lists[api_version] = (time.monotonic(), resources)
        return resources


PAGE = 1000
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""The Accept header that asks a server for metadata only."""


class Listed(NamedTuple):
    """``version``: where a watch continues."""

    objects: list[Object]
    version: str


async def list_all(
    transport: Transport,
    resource: ApiResource,
    namespace: str | None = None,
    *,
    patience: float,
    accept: str = "application/json",
    decoder: SharingDecoder | None = None,
) -> Listed:
    """In a namespace, or (None) in all. ``patience``: for each page. ``accept``: ``METADATA`` for metadata only.
    ``decoder``: the one to share parts with; None: a new one. Raises ApiError."""
    decoder = decoder or SharingDecoder()
    objects: list[Object] = []
    more = ""
    while True:
        query: dict[str, str | int] = {"limit": PAGE, **({"continue": more} if more else {})}
        path = resource.path(namespace, query=query)
        answer = await transport.request("GET", path, patience=patience, accept=accept)
        if answer.code != 200:
            raise refusal(answer.code, answer.body, f"list {resource.plural}")
        items, metadata = decoder.page(answer.body)
        for item in items:
            # A list has apiVersion and kind once, not in each object.
            item["apiVersion"], item["kind"] = resource.api_version, resource.kind
        objects += items
        more = metadata.get("continue") or ""
        if not more:
            # Pages that follow each other by a token all show the state of the first, under its version.
            return Listed(objects, metadata["resourceVersion"])
