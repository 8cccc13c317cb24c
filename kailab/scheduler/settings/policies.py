"""Policies, kailab's own and those that other distributions bring: found by the names in a configuration, loaded, checked, and told with their version."""

from __future__ import annotations

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
from kailab.errors import ExtensionError, InputError
from kailab.extensions import POLICIES, Extension, named, names
from kailab.policies.catalogue import SHIPPED, shipped
from kailab.scheduler.settings.policy_files import DISTRIBUTION, is_file, load_file

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
            made[field] = loaded(choice)
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
        raise ExtensionError(f"{extension.told}: {error}") from None
    policy: type[Policy] = found
    return policy


def policy_class(name: str) -> type[Policy]:
    """The class of a policy by its name, loaded and known in this process from now on. Raises ExtensionError."""
    loaded(PolicyChoice(name=name))
    found = registered_policy(name)
    assert found is not None
    return found


def loaded(choice: PolicyChoice) -> PolicyChoice:
    """The choice with the distribution and version that brings it, which is known in this process from now on. Raises ExtensionError."""
    if is_file(choice.name):
        return _of_file(choice)
    own = shipped(choice.name)
    if own is not None:
        register_policy(choice.name, own)
        return msgspec.structs.replace(choice, distribution="", version="")
    extension = named(POLICIES, choice.name, BUILT_IN)
    if extension is not None:
        register_policy(choice.name, load_policy(extension))
        return msgspec.structs.replace(choice, distribution=extension.distribution, version=extension.version)
    if registered_policy(choice.name) is None:
        known = ", ".join(names(POLICIES)) or "none"
        own_names = ", ".join(SHIPPED)
        # A configuration from recorded evidence says which distribution to install.
        was = f"; it was brought by {choice.brought_by}" if choice.distribution else ""
        raise ExtensionError(
            f"no policy is called {choice.name!r}; installed distributions bring: {known}{was}; kailab has: {own_names}"
        )
    # Registered in this process, by a test for example: no distribution brings it.
    return msgspec.structs.replace(choice, distribution="", version="")


def _of_file(choice: PolicyChoice) -> PolicyChoice:
    found = load_file(choice.name)
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
