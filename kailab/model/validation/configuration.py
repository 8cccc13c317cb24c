"""Check ConfigMaps and Secrets: their keys, and what a type of Secret must hold.

Source: Kubernetes v1.35.4, ValidateConfigMap and ValidateSecret. The faults are ratcheted, as a Secret whose values were redacted is none that a
server would take.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from kailab.model.objects import annotations_of
from kailab.model.validation.field_rules import KEY_RULE, is_data_key
from kailab.model.validation.fields import Faults, shown

_ACCOUNT = "kubernetes.io/service-account.name"
_DOCKER = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_MUST_HOLD = {
    **{type: (key,) for type, key in _DOCKER.items()},
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_ONE_OF = {"kubernetes.io/basic-auth": ("username", "password")}


def check_config_map(faults: Faults, obj: dict[str, Any]) -> None:
    text, binary = (_keys(faults, obj, field) for field in ("data", "binaryData"))
    _check_base64(faults, binary, "binaryData", "data")
    for key in text.keys() & binary.keys():
        faults.ratchet(f"data[{key:.80}]", "is a key of binaryData, too")


def check_secret(faults: Faults, obj: dict[str, Any]) -> None:
    encoded, plain = (_keys(faults, obj, field) for field in ("data", "stringData"))
    _check_base64(faults, encoded, "data", "stringData")
    type, held = str(obj.get("type")), {**encoded, **plain}
    for key in _MUST_HOLD.get(type, ()):
        if key not in held:
            faults.ratchet(f"data[{key}]", f"is required in a Secret of the type {type}")
    if (choices := _ONE_OF.get(type)) and not any(key in held for key in choices):
        faults.ratchet(f"data[{choices[0]}]", f"or {choices[1]} is required in a Secret of the type {type}")
    docker = _DOCKER.get(type)
    if docker and isinstance(text := plain.get(docker), str) and not _is_mapping(text):
        faults.ratchet(f"stringData[{docker}]", "is not a mapping in JSON")
    if type == "kubernetes.io/service-account-token" and not annotations_of(obj).get(_ACCOUNT):
        faults.ratchet(f"metadata.annotations[{_ACCOUNT}]", f"is required in a Secret of the type {type}")


def _keys(faults: Faults, obj: dict[str, Any], field: str) -> dict[str, Any]:
    """A mapping of the object; its keys are checked."""
    given = faults.mapping(obj, field, field) or {}
    for key in given:
        if not is_data_key(key):
            faults.ratchet(f"{field}[{key:.80}]", f"{shown(key)} is not valid; expected {KEY_RULE}")
    return given


def _check_base64(faults: Faults, values: dict[str, Any], field: str, plain: str) -> None:
    """``plain``: the field for texts."""
    for key, value in values.items():
        if isinstance(value, str):
            try:
                base64.b64decode("".join(value.split()), validate=True)
            except (binascii.Error, ValueError):
                # Without the value, which may be secret.
                faults.ratchet(f"{field}[{key:.80}]", f"is not in base64; expected that, or the text in {plain}")


def _is_mapping(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
