"""Times as options take them: 30s, 5m, 1h30m, 2d."""

from __future__ import annotations


def seconds_of(option: str, text: str) -> float:
    """Raises InputError that names the option."""
    from kailab.errors import InputError
    from kailab.model.times import duration_seconds

    try:
        return duration_seconds(text, days=True)
    except InputError as error:
        raise InputError(f"{option}: {error}") from None
