"""Objects whose equal parts are in memory once are the objects that the server sent."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.cluster.kubernetes.apiclient.decoding import SharingDecoder

PLAIN = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
)
FIELDS = st.dictionaries(st.text(max_size=6), VALUES, max_size=6)


def pod(number: int) -> dict[str, Any]:
    volume = f"kube-api-access-{number:05}"
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"p-{number:05}",
            "namespace": "default",
            "uid": f"uid-{number}",
            "resourceVersion": str(number),
            "labels": {"app": f"p-{number:05}", "kai.scheduler/queue": "team"},
            "managedFields": [{"manager": "kubectl", "fieldsV1": {f"f:{field}": {} for field in range(50)}}],
        },
        "spec": {
            "volumes": [{"name": volume, "projected": {"sources": [token, authority], "defaultMode": 420}}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.k8s.io/pause:3.10",
                    "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1", "memory": "1Gi"}},
                    "volumeMounts": [{"name": volume, "readOnly": True, "mountPath": "/var/run/secrets"}],
                }
            ],
            "tolerations": [{"key": f"taint-{key}", "operator": "Exists", "effect": "NoSchedule"} for key in range(4)],
            "nodeName": f"node-{number % 100}",
        },
        "status": {
            "phase": "Running",
            "podIP": f"10.0.{number // 256}.{number % 256}",
            "conditions": [
                {"type": type, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                for type in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
        },
    }


def sent(obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": "MODIFIED", "object": obj})


@pytest.mark.slow
@given(st.lists(st.tuples(FIELDS, FIELDS, FIELDS), min_size=1, max_size=6), st.integers(1, 8))
def test_what_is_decoded_is_what_was_sent(objects: list[Any], kept: int) -> None:
    decoder = SharingDecoder(kept)
    for metadata, spec, others in [*objects, *objects]:
        obj = {**others, "metadata": metadata, "spec": spec}
        wanted = {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
        assert decoder.event(sent(obj)) == ("MODIFIED", wanted)
        assert decoder.page(msgspec.json.encode({"metadata": {}, "items": [obj]})) == ([wanted], {})


def test_objects_are_their_own_and_share_what_is_equal() -> None:
    decoder = SharingDecoder()
    one, other = (decoder.object(msgspec.json.encode(pod(number))) for number in (1, 101))
    assert one["spec"]["tolerations"] is other["spec"]["tolerations"]
    assert one["spec"]["containers"][0]["resources"] is other["spec"]["containers"][0]["resources"]
    assert one["spec"]["containers"][0]["volumeMounts"] != other["spec"]["containers"][0]["volumeMounts"]
    # A cache puts what did not change in the place of what is equal.
    one["metadata"]["labels"] = {}
    assert other["metadata"]["labels"]["app"] == "p-00101"
    same = decoder.object(msgspec.json.encode(pod(101)))
    assert same == other
    assert same["metadata"] is not other["metadata"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"type": 1, "object": {}}', b'{"type":"ADDED","object":[]}'])
def test_what_is_no_event_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        SharingDecoder().event(body)


def test_what_is_remembered_has_a_bound() -> None:
    decoder = SharingDecoder(kept=100)
    for number in range(2_000):
        decoder.object(msgspec.json.encode(pod(number)))
    assert 100 <= len(decoder) <= 200


def test_pods_that_differ_in_their_names_take_less_than_half_of_the_memory() -> None:
    lines = [sent(pod(number)) for number in range(1_000)]
    plain = msgspec.json.Decoder().decode
    assert _memory(lines, SharingDecoder().event) < _memory(lines, plain) / 2


def _memory(lines: list[bytes], decode: Callable[[bytes], Any]) -> int:
    tracemalloc.start()
    try:
        kept = [decode(line) for line in lines]
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(kept) == len(lines)
    return used
