"""Every exception of kailab survives the way between processes, and says what can be shown."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil

import pytest

import kailab
from kailab.errors import InputError, InputErrors, Invalid, Where
from kailab.model.validation.fields import Faults

WHERE = Where(file="q.yaml", line=7, object="Queue/a", field="spec")


def _exceptions():
    found = {}
    for module in pkgutil.walk_packages(kailab.__path__, "kailab."):
        if module.name.endswith("__main__") or ".kind" in module.name:
            continue
        for _, thing in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(thing, BaseException) and thing.__module__.startswith("kailab."):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found


# What each constructor takes beside a message.
_ARGUMENTS = {
    "kailab.errors.InputError": ("wrong", WHERE),
    "kailab.errors.InputErrors": ([InputError("wrong", WHERE), InputError("too")],),
    "kailab.errors.Invalid": ("wrong", "spec.replicas"),
}


def _made(name, type):
    if name in _ARGUMENTS:
        return type(*_ARGUMENTS[name])
    if "__init__" not in {name for cls in type.__mro__ for name in vars(cls) if cls.__module__.startswith("kailab.")}:
        return type("wrong")
    parameters = list(inspect.signature(type).parameters.values())
    return type(*("wrong" for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD))


@pytest.mark.parametrize("name", sorted(_exceptions()))
def test_every_exception_can_be_pickled(name):
    error = _made(name, _exceptions()[name])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert {key: str(value) for key, value in vars(again).items()} == {
        key: str(value) for key, value in vars(error).items()
    }


def test_what_an_error_carries_comes_along():
    again = pickle.loads(pickle.dumps(InputErrors([InputError("a", WHERE), InputError("b")])))
    assert [(error.message, error.where) for error in again.errors] == [("a", WHERE), ("b", Where())]
    assert pickle.loads(pickle.dumps(Invalid("x", "spec"))).field == "spec"


def test_a_message_does_not_steer_the_terminal():
    error = InputError("\x1b[31mred\x07\nnext line ✓", Where(object="Pod/\x1b]0;title"))
    assert str(error) == "Pod/\\x1b]0;title: \\x1b[31mred\\x07\nnext line ✓"


def test_a_path_of_any_length_leaves_a_message_that_can_be_read():
    faults = Faults()
    faults.add(f"spec.tfReplicaSpecs.{'x' * 5000}", "is not valid")
    assert len(faults.found[0].field) < 400


def test_a_quoted_value_of_any_length_leaves_a_message_that_can_be_read():
    error = InputError(f"no PriorityClass {'x' * 10**6} (there are: high, low)")
    assert len(str(error)) < 10_000
    assert str(error).startswith("no PriorityClass xxx")
    assert str(error).endswith("(there are: high, low)")
