"""A server that is behind: it may refuse objects of a namespace that was just made again, as if it were the one that left, and a webhook
may not find what was applied a moment ago."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.cluster.protocol import Object
from kailab.errors import Forbidden, InputError
from kailab.lab import Lab

REFUSAL = 'configmaps "c" is forbidden: unable to create new content in namespace team because it is being terminated'
UNSEEN = 'admission webhook "validator.example.com" denied the request: Namespace "{}" not found: create it first'


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the server is still to refuse ConfigMaps with, one after the other."""
    waiting: list[str] = []
    with Lab.open() as lab:
        kind = type(lab.cluster)
    apply = kind.apply

    def refusing(self: Any, obj: Object) -> Any:
        if obj["kind"] == "ConfigMap" and waiting:
            raise Forbidden(waiting.pop(0))
        return apply(self, obj)

    monkeypatch.setattr(kind, "apply", refusing)
    return waiting


def objects(namespace: bool = True) -> list[Object]:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team"}}
    return [
        *([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}] if namespace else []),
        config_map,
    ]


def test_it_is_tried_again_while_the_server_is_behind(refusals: list[str]) -> None:
    refusals += [REFUSAL, REFUSAL]
    with Lab.open() as lab:
        applied = lab.apply(objects())
        assert [change.what for change in applied.changes] == ["created", "created"]
    assert refusals == []


def test_any_other_refusal_is_told_at_once(refusals: list[str]) -> None:
    refusals += ['configmaps "c" is forbidden: nobody may', "never reached"]
    with Lab.open() as lab, pytest.raises(InputError, match="nobody may"):
        lab.apply(objects())
    assert refusals == ["never reached"]


def test_a_namespace_that_leaves_is_not_waited_for(refusals: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    refusals += [REFUSAL, "never reached"]
    with Lab.open() as lab:
        lab.apply(objects()[:1])
        leaving = {
            **lab.cluster.get("Namespace", "team"),
            "metadata": {"name": "team", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        }
        monkeypatch.setattr(lab.cluster, "get", lambda *_: leaving)
        with pytest.raises(InputError, match="is being terminated"):
            lab.apply(objects(namespace=False))
    assert refusals == ["never reached"]


def test_a_webhook_that_does_not_find_what_was_applied_before_is_asked_again(refusals: list[str]) -> None:
    refusals += [UNSEEN.format("team")] * 2
    with Lab.open() as lab:
        applied = lab.apply(objects())
        assert [change.what for change in applied.changes] == ["created", "created"]
    assert refusals == []


def test_a_webhook_that_does_not_find_what_nobody_applied_is_told_at_once(refusals: list[str]) -> None:
    refusals += [UNSEEN.format("other"), "never reached"]
    with Lab.open() as lab, pytest.raises(InputError, match="not found: create it first"):
        lab.apply(objects())
    assert refusals == ["never reached"]
