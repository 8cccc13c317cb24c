"""Saving, resuming, damage, and two commands at once."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import textwrap

import msgspec
import pytest

from kailab.cluster.embedded import EmbeddedCluster, StateLock
from kailab.cluster.embedded.storage.state_file import VERSION, read_state
from kailab.errors import StateError


@pytest.fixture
def saved(cluster, running, tmp_path):
    running(annotations={"kailab.dev/run-seconds": "100"}, spec={"restartPolicy": "Never"})
    cluster.event(cluster.get("Pod", "p", "default"), "Normal", "X", "y")
    path = tmp_path / "lab" / "state"
    cluster.save(path)
    return path


def test_all_comes_back(cluster, saved):
    again = EmbeddedCluster.load(saved)
    assert again.dump() == cluster.dump()
    assert again.now() == cluster.now()
    assert again.next_timer() == cluster.next_timer()
    assert again.list("Event") == cluster.list("Event")


def test_life_goes_on(cluster, saved):
    again = EmbeddedCluster.load(saved)
    again.advance(100)
    assert again.get("Pod", "p", "default")["status"]["phase"] == "Succeeded"
    cluster.advance(100)
    assert again.dump() == cluster.dump()


def test_how_long_a_taint_is_put_up_with_goes_on_however_often_the_lab_is_saved(cluster, running, tmp_path):
    running(spec={"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]})
    cluster.patch("Node", "n", None, {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})
    for seconds in (20, 9, 1):
        assert "deletionTimestamp" not in cluster.get("Pod", "p", "default")["metadata"]
        cluster.save(tmp_path / "state")
        cluster = EmbeddedCluster.load(tmp_path / "state")
        cluster.advance(seconds)
    assert "deletionTimestamp" in cluster.get("Pod", "p", "default")["metadata"]


def test_same_cluster_same_bytes(cluster, saved, tmp_path):
    EmbeddedCluster.load(saved).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_missing(tmp_path):
    with pytest.raises(StateError, match="kailab up"):
        EmbeddedCluster.load(tmp_path / "nothing")


def test_a_folder_in_its_place(tmp_path):
    with pytest.raises(StateError, match="can't be read"):
        EmbeddedCluster.load(tmp_path)


@pytest.mark.parametrize("cut", [0, 1, 20, 200, -1])
def test_truncated(saved, cut):
    saved.write_bytes(saved.read_bytes()[:cut])
    with pytest.raises(StateError, match=r"damaged|not a state file"):
        EmbeddedCluster.load(saved)


def test_every_flipped_byte_is_found(saved):
    data = saved.read_bytes()
    for position in range(0, len(data), 37):
        broken = bytearray(data)
        broken[position] ^= 0x41
        saved.write_bytes(bytes(broken))
        with pytest.raises(StateError):
            EmbeddedCluster.load(saved)


def test_other_version(saved):
    line, _, body = saved.read_bytes().partition(b"\n")
    header = msgspec.json.decode(line)
    header["version"] = 99
    saved.write_bytes(msgspec.json.encode(header) + b"\n" + body)
    with pytest.raises(StateError, match="format 99"):
        EmbeddedCluster.load(saved)


def test_whole_but_nonsense(saved):
    body = msgspec.msgpack.encode({"now": "yesterday"})
    header = {
        "magic": "kailab-state",
        "version": VERSION,
        "length": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    saved.write_bytes(msgspec.json.encode(header) + b"\n" + body)
    with pytest.raises(StateError, match="damaged"):
        EmbeddedCluster.load(saved)


def test_pods_that_are_nearly_alike_take_little_room(cluster, running, tmp_path):
    for index in range(300):
        running(name=f"p{index}")
    cluster.save(tmp_path / "state")
    assert (tmp_path / "state").stat().st_size * 8 < len(msgspec.msgpack.encode(cluster.dump()))


def test_to_look_at_it_shows_what_there_is(cluster, saved):
    looked_at = EmbeddedCluster.restore(read_state(saved), read_only=True)
    assert looked_at.kinds() == cluster.kinds()
    assert looked_at.get("Pod", "p", "default") == cluster.get("Pod", "p", "default")
    assert looked_at.list("Node") == cluster.list("Node")
    assert looked_at.list("Event") == cluster.list("Event")
    assert looked_at.dump() == cluster.dump()


def test_to_look_at_it_is_not_to_change_it(cluster, saved):
    looked_at = EmbeddedCluster.restore(read_state(saved), read_only=True)
    before = looked_at.dump()
    for change in (
        lambda: looked_at.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
        lambda: looked_at.patch("Pod", "p", "default", {"metadata": {"labels": {"a": "b"}}}),
        lambda: looked_at.delete("Node", looked_at.list("Node")[0]["metadata"]["name"]),
    ):
        with pytest.raises(StateError, match="open read-only"):
            change()
    assert looked_at.dump() == before


def test_unwritable(cluster, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="can't be written"):
        cluster.save(tmp_path / "file" / "state")


KILLED = """
    import os, signal, sys
    from kailab.cluster.embedded import EmbeddedCluster
    cluster = EmbeddedCluster.load(sys.argv[1])
    for index in range(200):
        cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{index}"}})
    real = getattr(os, sys.argv[2])
    def deadly(*args):
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(os, sys.argv[2], deadly)
    cluster.save(sys.argv[1])
"""


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_killed_while_saving_leaves_the_previous_state(cluster, saved, call):
    script = textwrap.dedent(KILLED)
    ended = subprocess.run([sys.executable, "-c", script, str(saved), call], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert EmbeddedCluster.load(saved).dump() == cluster.dump()


def test_one_command_at_a_time(saved):
    hold = "import sys; from kailab.cluster.embedded import StateLock\nwith StateLock(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(saved)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(StateError, match=f"in use by process {other.pid}"), StateLock(saved):
            pass
        other.kill()
        other.wait()
    with StateLock(saved):
        assert (saved.parent / "state.lock").read_text() == f"{os.getpid()}\n"
