"""Answers that are no success, as errors of the cluster protocol."""

from __future__ import annotations

from typing import Any

import msgspec

from kailab.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Unauthorized,
    Unavailable,
)

_BY_REASON: dict[str, type[ApiError]] = {
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Gone": Gone,
    "Expired": Gone,
    "Forbidden": Forbidden,
    "Unauthorized": Unauthorized,
}
_BY_CODE: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def refusal(code: int, body: bytes, asked: str) -> ApiError:
    """The error for an answer. ``asked``: what was asked for, as ``PATCH pods/a``, for answers that do not say."""
    try:
        status: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        status = None
    if not isinstance(status, dict):
        status = {}
    message = str(status.get("message") or f"{asked}: {body[:200].decode(errors='replace').strip() or 'no reason'}")
    reason = str(status.get("reason") or "")
    # The first cause names the field; the message lists them all.
    if code == 422 or reason == "Invalid" or code == 400:
        causes = (status.get("details") or {}).get("causes") or [{}]
        return Invalid(message, str(causes[0].get("field") or ""))
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code)
    if kind is not None:
        return kind(message)
    error = ApiError(f"{message} (HTTP {code})")
    error.code = code
    error.reason = reason or error.reason
    return error
