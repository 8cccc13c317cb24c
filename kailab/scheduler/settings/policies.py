"""Policies that a configuration names: those of other distributions, and those of a file (``FILE.py:CLASS``).

A file is read and run once. Its content identifies the policy, so that a changed file is another policy.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import msgspec

from kailab.engine.config import EngineConfig
from kailab.engine.policies.contract import (
    JobOrder,
    NodeScore,
    Policy,
    QueueShares,
    Reservation,
    VictimOrder,
    check_policy,
    make_policy,
    register_policy,
    registered_policy,
)
from kailab.engine.policies.settings import PolicyChoice
from kailab.errors import ExtensionError, InputError, Where, describe_error
from kailab.extensions import POLICIES, Extension, extension_names, find_extension
from kailab.model.files import read_bytes
from kailab.policies.catalogue import SHIPPED, shipped

DISTRIBUTION = "file"
"""What stands for a distribution where a file brings a policy; its version is the file's digest."""
_ENDING = ".py"


class FilePolicy(NamedTuple):
    """``version``: ``sha256:`` and the first figures of the file's digest."""

    policy: type[Policy]
    version: str


def names_policy_file(name: str) -> bool:
    """Whether a policy's name is that of a file and a class.

    >>> is_file("mine/order.py:Order"), is_file("fifo")
    (True, False)
    """
    return name.rpartition(":")[0].endswith(_ENDING)


def resolve_policy_name(name: str, folder: Path) -> str:
    """The name of a file's policy as it is from here, written where ``folder`` is."""
    return str(folder / Path(name).expanduser()) if names_policy_file(name) else name


def load_policy_file(name: str) -> FilePolicy:
    """Runs the file. Raises InputError for a file that can't be read or has no such policy, ExtensionError whatever its code raises."""
    path, _, wanted = name.rpartition(":")
    content = read_bytes(path)
    digest = hashlib.sha256(content).hexdigest()
    module = _run(str(Path(path).absolute()), path, content, digest)
    found = getattr(module, wanted, None) if wanted.isidentifier() else None
    if found is None:
        own = [key for key, one in vars(module).items() if isinstance(one, type) and one.__module__ == module.__name__]
        there = ", ".join(key for key in own if issubclass(vars(module)[key], Policy)) or "none"
        raise InputError(f"has no policy {wanted!r:.80}; it has: {there}", Where(file=path))
    try:
        check_policy(found)
    except InputError as error:
        raise InputError(error.message, Where(file=path)) from None
    return FilePolicy(found, f"sha256:{digest[:16]}")


@cache
def _run(place: str, path: str, content: bytes, digest: str) -> ModuleType:
    """Once for each content: what is made of a class stays the same class."""
    try:
        code = compile(content, path, "exec")
    except (SyntaxError, ValueError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError(f"is no Python: {message}", Where(file=path, line=line or 0)) from None
    module = ModuleType(f"kailab_policy_{digest[:16]}")
    module.__file__ = place
    # Types of a class's fields are looked up in its module.
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)  # it is the user's own file, named by the user
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise ExtensionError(f"{path} can't be loaded: {describe_error(error)}") from error
    return module


BUILT_IN = ("binpack", "priority", "queue", "spread", "weighted", *SHIPPED)
"""Names that no distribution's policy may have."""

POLICY_FIELDS: dict[str, type[Policy]] = {
    "job_order_policy": JobOrder,
    "node_score_policy": NodeScore,
    "victim_order_policy": VictimOrder,
    "reservation_policy": Reservation,
    "queue_shares_policy": QueueShares,
}


def with_policies(config: EngineConfig) -> EngineConfig:
    """The configuration, with every policy that it names loaded and made once, and with the distribution and version that brings
    it. Runs code of those distributions. Raises ExtensionError, PolicyError, and InputError
    for two orders of the same."""
    made: dict[str, PolicyChoice] = {}
    for field, kind in POLICY_FIELDS.items():
        choice = getattr(config, field)
        if choice is not None:
            made[field] = load_choice(choice)
            # Once here, so that wrong parameters are told when the configuration is read, not within a cycle.
            make_policy(made[field], kind)
    if "job_order_policy" in made and config.weighted_order is not None:
        raise InputError("weighted_order and job_order_policy: an order of jobs is one or the other")
    if "victim_order_policy" in made and config.victim_order != "queue":
        raise InputError("victim_order and victim_order_policy: an order of victims is one or the other")
    return msgspec.structs.replace(config, **made) if made else config


def chosen_policies(config: EngineConfig) -> tuple[PolicyChoice, ...]:
    """Those that a configuration names."""
    choices = (getattr(config, field) for field in POLICY_FIELDS)
    return tuple(choice for choice in choices if choice is not None)


def load_policy(extension: Extension) -> type[Policy]:
    """Raises ExtensionError for what can't be loaded, or is no policy."""
    found = extension.load()
    try:
        check_policy(found)
    except InputError as error:
        raise ExtensionError(f"{extension.title}: {error}") from None
    policy: type[Policy] = found
    return policy


def policy_class(name: str) -> type[Policy]:
    """The class of a policy by its name, loaded and known in this process from now on. Raises ExtensionError."""
    load_choice(PolicyChoice(name=name))
    found = registered_policy(name)
    assert found is not None
    return found


def load_choice(choice: PolicyChoice) -> PolicyChoice:
    """The choice with the distribution and version that brings it, which is known in this process from now on. Raises ExtensionError."""
    if names_policy_file(choice.name):
        return _of_file(choice)
    own = shipped(choice.name)
    if own is not None:
        register_policy(choice.name, own)
        return msgspec.structs.replace(choice, distribution="", version="")
    extension = find_extension(POLICIES, choice.name, BUILT_IN)
    if extension is not None:
        register_policy(choice.name, load_policy(extension))
        return msgspec.structs.replace(choice, distribution=extension.distribution, version=extension.version)
    if registered_policy(choice.name) is None:
        known = ", ".join(extension_names(POLICIES)) or "none"
        own_names = ", ".join(SHIPPED)
        # A configuration from recorded evidence says which distribution to install.
        was = f"; it was brought by {choice.brought_by}" if choice.distribution else ""
        raise ExtensionError(
            f"no policy is called {choice.name!r}; installed distributions bring: {known}{was}; kailab has: {own_names}"
        )
    # Registered in this process, by a test for example: no distribution brings it.
    return msgspec.structs.replace(choice, distribution="", version="")


def _of_file(choice: PolicyChoice) -> PolicyChoice:
    found = load_policy_file(choice.name)
    known = registered_policy(choice.name)
    changed = known is not None and known is not found.policy
    if changed or (choice.distribution == DISTRIBUTION and choice.version != found.version):
        was = f"it was {choice.version}, " if choice.version else ""
        raise ExtensionError(
            f"the policy {choice.name!r} has changed since it was read first: {was}it is {found.version} now; begin a new process, "
            "or bring the file back"
        )
    register_policy(choice.name, found.policy)
    return msgspec.structs.replace(choice, distribution=DISTRIBUTION, version=found.version)
