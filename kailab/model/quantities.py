"""Read Kubernetes quantities exactly, and write them.

A quantity is a number with an optional suffix: ``500m``, ``2``, ``1.5``, ``1000Gi``, ``4M``, ``1e3``. YAML yields
strings, ints or floats; all three are accepted. All arithmetic is in integers, so ``0.1`` and ``0.2`` make ``0.3``.
Results are in accounting units: millicores, bytes, milli-GPU, or a plain count. A value between two units is
rounded up, as in Kubernetes.

Refused with ``InputError``: negative values, NaN and infinities, values beyond 2^63-1 of their unit,
booleans, anything that is not a quantity. (Kubernetes silently caps values that are too large; here that
would hide a typing error.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from kailab.errors import InputError, Where

Quantity: TypeAlias = int | float | str

LARGEST = 2**63 - 1
UNLIMITED = -1

# An exponent has three digits at most: a short text must not stand for a number with a billion of them.
_PATTERN = re.compile(
    r"([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?\d{1,3}))?",
    re.ASCII,
)
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SUFFIX: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix + "i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}
_LONGEST = 64  # characters of a quantity; no sensible one is longer
_EXPECTED = "expected a quantity such as 2, 500m, 1.5 or 40Gi"


def parse(quantity: Quantity, where: Where | None = None, *, signed: bool = False) -> Fraction:
    """The exact value in base units (cores, bytes, devices). ``signed`` lets negative values through."""
    # The exact type is part of the key, because True equals 1. Errors with a place are not cached.
    if not where and not signed and type(quantity) in (str, int):
        return _cached_exact(quantity)
    return _parse(quantity, where, signed)


def _parse(quantity: Quantity, where: Where | None, signed: bool) -> Fraction:
    value = _exact(quantity, where)
    if value < 0 and not signed:
        raise InputError(f"{_shown(quantity)} is negative; {_EXPECTED}, zero or more", where)
    if abs(value) > LARGEST:
        raise InputError(f"{_shown(quantity)} is too large; the largest value is 2^63-1", where)
    return value


def parse_count(text: Any, otherwise: int = 0) -> int:
    """Read a count from a label, an annotation or a name; return ``otherwise`` if the text is not a count or is too large.

    Python takes more for digits than a label can mean (\"²\", \"٣\"), and refuses to read thousands of them.
    """
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 18 else otherwise


def decimal(text: object) -> Fraction | None:
    """Read a decimal number as Go's ParseFloat does: rounded to a float, so a tiny number is 0. None for any other text."""
    if isinstance(text, str):
        if len(text) > _LONGEST or not _DECIMAL.fullmatch(text):
            return None
        text = float(text)
    # The exact value of the text, not the nearest binary fraction.
    return Fraction(repr(text)) if isinstance(text, float) and math.isfinite(text) else None


def cpu_millis(quantity: Quantity, where: Where | None = None) -> int:
    """Millicores: ``"1.5"`` and ``"1500m"`` are 1500."""
    return _cached_millis(quantity) if type(quantity) is str and not where else _scaled(quantity, 1000, where)


def mem_bytes(quantity: Quantity, where: Where | None = None) -> int:
    """Bytes: ``"1Ki"`` is 1024, ``"1k"`` is 1000."""
    return _cached_units(quantity) if type(quantity) is str and not where else _scaled(quantity, 1, where)


def whole_amount(quantity: Quantity, where: Where | None = None) -> int:
    """A whole number of indivisible things (devices, pods). A fraction is an error."""
    if type(quantity) is int and 0 <= quantity <= LARGEST:
        return quantity
    value = parse(quantity, where)
    if value.denominator != 1:
        raise InputError(f"{_shown(quantity)} is not a whole number; expected 0, 1, 2 ...", where)
    return value.numerator


def fraction_milli(text: float | str, where: Where | None = None) -> int:
    """A share of one GPU (annotation ``gpu-fraction``) in milli-GPU, 1 to 999, from a decimal number between 0 and 1, both excluded.

    It is not a quantity: KAI reads it with Go's ParseFloat, which accepts no suffix.
    """
    value = decimal(text)
    if value is None or not 0 < value < 1:
        raise InputError(
            f"{_shown(text)} is not a share of one GPU; expected a decimal number of more than 0 and less than 1, such as 0.5",
            where,
        )
    # Neither 0 nor a whole device: both would be another form of request.
    return min(999, max(1, _nearest(value * 1000)))


def queue_gpu(value: int | float | str, where: Where | None = None) -> int:
    """A queue's gpu quota or limit (devices) in milli-GPU; -1 stays -1, unlimited."""
    return _queue_amount(value, 1000, where)


def queue_cpu(value: int | float | str, where: Where | None = None) -> int:
    """A queue's cpu quota or limit (millicores already) in millicores; -1 stays -1."""
    return _queue_amount(value, 1, where)


def queue_memory(value: int | float | str, where: Where | None = None) -> int:
    """A queue's memory quota or limit (megabytes of 10^6) in bytes; -1 stays -1."""
    return _queue_amount(value, 10**6, where)


def format_cpu(millis: int) -> str:
    """``1500`` -> ``"1500m"``, ``2000`` -> ``"2"``."""
    return str(millis // 1000) if millis % 1000 == 0 else f"{millis}m"


def format_gpu(milli: int) -> str:
    """``2000`` -> ``"2"``, ``500`` -> ``"0.5"``, ``-1`` -> ``"-1"`` (unlimited)."""
    if milli == UNLIMITED:
        return "-1"
    sign, milli = ("-", -milli) if milli < 0 else ("", milli)
    whole, rest = divmod(milli, 1000)
    return f"{sign}{whole}.{rest:03}".rstrip("0").rstrip(".")


@lru_cache(maxsize=4096)
def is_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")


def format_bytes(number: int) -> str:
    """The shortest exact form: ``1024`` -> ``"1Ki"``, ``1000`` -> ``"1k"``, ``1001`` -> ``"1001"``."""
    if number == 0:
        return "0"
    # The plain number comes first, so that ``min`` takes it if no other form is shorter.
    texts = [str(number)]
    for base, ending in ((1024, "i"), (1000, "")):
        value, power = number, 0
        while value % base == 0 and power < 6:
            value, power = value // base, power + 1
        if power:
            texts.append(f"{value}{('KMGTPE' if ending else 'kMGTPE')[power - 1]}{ending}")
    return min(texts, key=len)


def format_number(value: Fraction) -> str:
    """Format a number for messages: whole numbers in full (``"3"``), others with six digits (``"0.5"``)."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):g}"


def _exact(quantity: Any, where: Where | None) -> Fraction:
    if type(quantity) is int:
        return Fraction(quantity)
    if isinstance(quantity, float):
        if quantity != quantity or quantity in (float("inf"), float("-inf")):
            raise InputError(f"{quantity} is not a number; {_EXPECTED}", where)
        return Fraction(repr(quantity))  # the written value, not the nearest binary fraction
    if isinstance(quantity, bool) or not isinstance(quantity, str):
        raise InputError(f"{_shown(quantity)} is not a quantity; {_EXPECTED}", where)
    match = _PATTERN.fullmatch(quantity) if len(quantity) <= _LONGEST else None
    if match is None:
        raise InputError(f"{_shown(quantity)} is not a quantity; {_EXPECTED}", where)
    sign, whole, decimals, bare, suffix, exponent = match.groups()
    decimals = decimals or bare or ""
    value = Fraction(int((whole or "") + decimals), 10 ** len(decimals))
    if suffix:
        value *= _SUFFIX[suffix]
    elif exponent:
        value *= Fraction(10) ** int(exponent)
    return -value if sign == "-" else value


def _scaled(quantity: Quantity, scale: int, where: Where | None) -> int:
    value = parse(quantity, where) * scale
    # Rounded up, in whole numbers.
    units = -(-value.numerator // value.denominator)
    if units > LARGEST:
        raise InputError(f"{_shown(quantity)} is too large; the largest value is 2^63-1 of its unit", where)
    return units


def _queue_amount(value: int | float | str, scale: int, where: Where | None) -> int:
    exact = parse(value, where, signed=True)
    if exact == UNLIMITED:
        return UNLIMITED
    if exact < 0:
        raise InputError(f"{_shown(value)} is negative; expected zero or more, or -1 for unlimited", where)
    if exact * scale > LARGEST:
        raise InputError(f"{_shown(value)} is too large; the largest value is 2^63-1 of its unit", where)
    return _nearest(exact * scale)


def _nearest(value: Fraction) -> int:
    # Rounded half up in whole numbers, without a float in between.
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "a number of more than 256 bits"  # Python refuses to print the longest ones
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _cache(scale: int) -> Callable[[str], int]:
    @lru_cache(maxsize=4096)
    def scaled(quantity: str) -> int:
        return _scaled(quantity, scale, None)

    return scaled


_cached_millis = _cache(1000)
_cached_units = _cache(1)


@lru_cache(maxsize=4096)
def _cached_exact(quantity: str | int) -> Fraction:
    """Cached, because the manifests of a cluster repeat a few quantities thousands of times."""
    return _parse(quantity, None, False)
