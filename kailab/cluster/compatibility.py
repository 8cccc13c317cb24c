"""Which backend, scheduler under test and options go together. Every face asks here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.cluster.backends import BACKENDS, LIVE_BACKENDS
from kailab.cluster.choices import FLAGS, Spelt
from kailab.cluster.schedulers import SCHEDULERS
from kailab.errors import InputError, InputErrors


def check_pair(backend: str, scheduler: str) -> None:
    """Raises InputError for a scheduler that can't decide on a backend."""
    if backend == "embedded" and scheduler == "kai":
        raise InputError(f"a real KAI needs a real API server: expected one of the backends {', '.join(LIVE_BACKENDS)}")


def check_lab(backend: str, scheduler: str, given: Mapping[str, Any], spelt: Spelt = FLAGS.__getitem__) -> None:
    """Raises InputError(s) for a backend or a scheduler that there is not, that don't go together, or that do not understand an
    option. See ``check_options``."""
    BACKENDS.check(backend)
    SCHEDULERS.check(scheduler)
    check_pair(backend, scheduler)
    check_options(backend, scheduler, given, spelt)
    if backend == "embedded" and scheduler == "kube-scheduler" and given.get("devices"):
        raise InputError(
            f"{spelt('devices')}: the embedded cluster's kube-scheduler does not allocate claims, the one of a real API server "
            f"does: expected one of the backends {', '.join(LIVE_BACKENDS)}"
        )
    if backend == "kubeconfig" and scheduler == "kai" and given.get("config") is not None:
        raise InputError(
            f"{spelt('config')}: the KAI of a cluster that a kubeconfig names has a configuration of its own there"
        )


def check_options(
    backend: str, scheduler: str | None, given: Mapping[str, Any], spelt: Spelt = FLAGS.__getitem__
) -> None:
    """Raises InputError(s) for options that the backend or the scheduler does not understand. ``given``: values by the options'
    names, None and False where nothing was said; ``scheduler`` None: whichever, as each test chooses its own. ``spelt``:
    how the user writes an option."""
    said = [name for name, value in given.items() if value is not None and value is not False]
    found = BACKENDS.not_understood(backend, said, spelt)
    if scheduler is not None:
        found += SCHEDULERS.not_understood(scheduler, said, spelt)
    if found:
        errors = [InputError(text) for text in found]
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
