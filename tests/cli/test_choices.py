"""The registry of what can be chosen by name."""

from __future__ import annotations

import pytest

from kailab.cluster.registry import Registry, RegistryEntry
from kailab.errors import InputError


def fruit() -> Registry[RegistryEntry]:
    return Registry(
        "fruit", RegistryEntry, {"apple": RegistryEntry("red", frozenset({"peeled"})), "plum": RegistryEntry("blue")}
    )


def test_what_is_registered_can_be_chosen_and_its_options_are_known():
    registry = fruit()
    registry.register("pear", RegistryEntry("green", frozenset({"peeled", "ripe"})))
    registry.check("pear")
    assert list(registry) == ["apple", "plum", "pear"]
    assert registry.not_understood("pear", ["peeled", "ripe"], spelt=str) == []
    assert registry.not_understood("plum", ["peeled"], spelt=str) == [
        "peeled: the fruit plum does not take it; only the fruits apple and pear do"
    ]


def test_a_name_is_given_once_and_an_unknown_one_is_refused_with_those_there_are():
    registry = fruit()
    with pytest.raises(InputError, match="there is a fruit 'apple' already"):
        registry.register("apple", RegistryEntry("another"))
    with pytest.raises(InputError, match="there is no fruit 'fig'; expected one of: apple, plum"):
        registry.check("fig")
