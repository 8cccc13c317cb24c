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
"""The distribution of policies from a file. Their version is the file's digest."""


class FilePolicy(NamedTuple):
    """``version``: ``sha256:`` and the first digits of the file's digest."""

    policy: type[Policy]
    version: str


def names_policy_file(name: str) -> bool:
    """Whether a policy's name has the form ``FILE.py:CLASS``.

    >>> names_policy_file("mine/order.py:Order"), names_policy_file("fifo")
    (True, False)
    """
    return name.rpartition(":")[0].endswith(".py")


def resolve_policy_name(name: str, folder: Path) -> str:
    """The name of a policy; a relative file is resolved against ``folder``, the folder of the configuration."""
    return str(folder / Path(name).expanduser()) if names_policy_file(name) else name


def load_policy_file(name: str) -> FilePolicy:
    """Load a policy from its file. Raises InputError for a file that can't be read or has no such policy, and ExtensionError for any error
    of its code."""
    path, _, class_name = name.rpartition(":")
    content = read_bytes(path)
    digest = hashlib.sha256(content).hexdigest()
    module = _run(str(Path(path).absolute()), path, content, digest)
    policy = getattr(module, class_name, None) if class_name.isidentifier() else None
    if policy is None:
        policies = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__ and issubclass(value, Policy)
        ]
        raise InputError(f"has no policy {class_name!r:.80}; it has: {', '.join(policies) or 'none'}", Where(file=path))
    try:
        check_policy(policy)
    except InputError as error:
        raise InputError(error.message, Where(file=path)) from None
    return FilePolicy(policy, f"sha256:{digest[:16]}")


@cache
def _run(place: str, path: str, content: bytes, digest: str) -> ModuleType:
    """Run each content once, so that its classes keep their identity."""
    try:
        code = compile(content, path, "exec")
    except (SyntaxError, ValueError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError(f"is no Python: {message}", Where(file=path, line=line or 0)) from None
    module = ModuleType(f"kailab_policy_{digest[:16]}")
    module.__file__ = place
    # msgspec looks up the types of a class's fields in its module.
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)  # the user's own file, named by the user
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise ExtensionError(f"{path} can't be loaded: {describe_error(error)}") from error
    return module


BUILT_IN = ("binpack", "priority", "queue", "spread", "weighted", *SHIPPED)
"""Names that policies of other distributions may not have."""

POLICY_FIELDS: dict[str, type[Policy]] = {
    "job_order_policy": JobOrder,
    "node_score_policy": NodeScore,
    "victim_order_policy": VictimOrder,
    "reservation_policy": Reservation,
    "queue_shares_policy": QueueShares,
}


def with_policies(config: EngineConfig) -> EngineConfig:
    """The configuration with its policies loaded, checked, and completed by distribution and version. Runs code of those distributions.
    Raises ExtensionError, PolicyError, and InputError if two settings define the same order."""
    policies: dict[str, PolicyChoice] = {}
    for field, kind in POLICY_FIELDS.items():
        choice = getattr(config, field)
        if choice is not None:
            policies[field] = load_choice(choice)
            # Made once here, so that wrong parameters are reported before the first cycle.
            make_policy(policies[field], kind)
    if "job_order_policy" in policies and config.weighted_order is not None:
        raise InputError("weighted_order and job_order_policy: an order of jobs is one or the other")
    if "victim_order_policy" in policies and config.victim_order != "queue":
        raise InputError("victim_order and victim_order_policy: an order of victims is one or the other")
    if policies:
        config = msgspec.structs.replace(config, **policies)
    return msgspec.structs.replace(config, queue_depth=_one_each(config)) if head_blocks(config) else config


def head_blocks(config: EngineConfig) -> bool:
    """Whether the order of jobs starts none before those in front of it."""
    return _order_has(config, "head_blocks")


def order_preempts(config: EngineConfig) -> bool:
    """Whether waiting jobs may evict those that come after them in the order of jobs, whatever the priorities."""
    return _order_has(config, "preempts")


def _order_has(config: EngineConfig, attribute: str) -> bool:
    choice = config.job_order_policy
    return choice is not None and bool(getattr(make_policy(choice, JobOrder), attribute, False))


def _one_each(config: EngineConfig) -> dict[str, int]:
    """One job of each queue for every action: the first, behind which nobody passes. Raises InputError for another depth."""
    depth: dict[str, int] = dict.fromkeys(config.actions, 1)
    if config.queue_depth and dict(config.queue_depth) != depth:
        raise InputError(
            "queueDepthPerAction: the order of jobs tries only the first job of each queue; leave out one of the two"
        )
    return depth


def chosen_policies(config: EngineConfig) -> tuple[PolicyChoice, ...]:
    """The policies that a configuration names."""
    choices = (getattr(config, field) for field in POLICY_FIELDS)
    return tuple(choice for choice in choices if choice is not None)


def load_policy(extension: Extension) -> type[Policy]:
    """The policy class of an extension. Raises ExtensionError if it can't be loaded or is no policy."""
    policy: type[Policy] = extension.load()
    try:
        check_policy(policy)
    except InputError as error:
        raise ExtensionError(f"{extension.title}: {error}") from None
    return policy


def policy_class(name: str) -> type[Policy]:
    """Load a policy by its name and return its class. Raises ExtensionError."""
    load_choice(PolicyChoice(name=name))
    policy = registered_policy(name)
    assert policy is not None
    return policy


def load_choice(choice: PolicyChoice) -> PolicyChoice:
    """Load and register a policy. Returns the choice with its distribution and version. Raises ExtensionError."""
    if names_policy_file(choice.name):
        return _load_from_file(choice)
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
        # A configuration in recorded evidence names the distribution to install.
        was = f"; it was brought by {choice.brought_by}" if choice.distribution else ""
        raise ExtensionError(
            f"no policy is called {choice.name!r}; installed distributions bring: {known}{was}; kailab has: {own_names}"
        )
    # Registered in this process, for example by a test, without a distribution.
    return msgspec.structs.replace(choice, distribution="", version="")


def _load_from_file(choice: PolicyChoice) -> PolicyChoice:
    loaded = load_policy_file(choice.name)
    known = registered_policy(choice.name)
    changed = known is not None and known is not loaded.policy
    if changed or (choice.distribution == DISTRIBUTION and choice.version != loaded.version):
        was = f"it was {choice.version}, " if choice.version else ""
        raise ExtensionError(
            f"the policy {choice.name!r} has changed since it was first read: {was}it is {loaded.version} now; start a new process "
            "or restore the file"
        )
    register_policy(choice.name, loaded.policy)
    return msgspec.structs.replace(choice, distribution=DISTRIBUTION, version=loaded.version)
