"""All objects of a kind, asked for page by page."""

from __future__ import annotations

from typing import NamedTuple

from kailab.cluster.kubernetes.apiclient.decoding import SharingDecoder
from kailab.cluster.kubernetes.apiclient.refusals import refusal
from kailab.cluster.kubernetes.apiclient.resources import Resource
from kailab.cluster.kubernetes.apiclient.transport import Transport
from kailab.cluster.protocol import Object

PAGE = 1000
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Asks a server for no more of each object than its metadata."""


class Listed(NamedTuple):
    """``version``: where a watch goes on from."""

    objects: list[Object]
    version: str


async def list_all(
    transport: Transport,
    resource: Resource,
    namespace: str | None = None,
    *,
    patience: float,
    accept: str = "application/json",
    decoder: SharingDecoder | None = None,
) -> Listed:
    """In a namespace, or (None) in all of them. ``patience``: for each page. ``accept``: ``METADATA`` for no more than that.
    ``decoder``: with which parts are shared; None: with no other list. Raises ApiError."""
    decoder = decoder or SharingDecoder()
    found: list[Object] = []
    more = ""
    while True:
        query: dict[str, str | int] = {"limit": PAGE, **({"continue": more} if more else {})}
        path = resource.path(namespace, query=query)
        answer = await transport.request("GET", path, patience=patience, accept=accept)
        if answer.code != 200:
            raise refusal(answer.code, answer.body, f"list {resource.plural}")
        items, metadata = decoder.page(answer.body)
        for item in items:
            # A list names the kind once, and not in each object.
            item["apiVersion"], item["kind"] = resource.api_version, resource.kind
        found += items
        more = metadata.get("continue") or ""
        if not more:
            # Pages that follow each other by a token all show the state of the first, under its version.
            return Listed(found, metadata["resourceVersion"])
