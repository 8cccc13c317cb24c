"""What objects of every kind have."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

Quantity: TypeAlias = int | float | str
IntOrString: TypeAlias = int | str
Resources: TypeAlias = dict[str, Quantity]


class Record(msgspec.Struct, rename="camel", frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Base: camelCase names, frozen, outside the cycle collector (the trees hold no cycles)."""


class OwnerReference(Record, frozen=True, kw_only=True):
    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(Record, frozen=True, kw_only=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(Record, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class AnyObject(Record, frozen=True, kw_only=True):
    """An object of any kind: its metadata."""

    metadata: Metadata
