"""``capacity`` on the command line."""

from __future__ import annotations

import json

import pytest

TRACE = "name,submit,seconds,gpus,team\na,0,100,4,blue\nb,0,100,4,blue\nc,0,100,4,red\n"
FLEET = """\
apiVersion: kailab.dev/v1
kind: Fleet
name: two
pools:
  - {name: a, count: 2, cpu: "64", memory: 512Gi, gpus: 4, gpuModel: A100}
"""
ASKED = ("capacity", "--trace", "trace.csv", "--fleet", "fleet.yaml", "--one-queue", "--seeds", "0")


@pytest.fixture
def files(home):
    (home / "trace.csv").write_text(TRACE)
    (home / "fleet.yaml").write_text(FLEET)


@pytest.mark.slow
def test_the_fewest_gpus_are_told_with_who_gains(kailab, files, home) -> None:
    done = kailab(*ASKED, "--target", "longest wait < 10s")
    assert done.code == 0, done.err
    assert "Fewest: 12 GPUs (12 A100), with the given quotas; the given fleet has 8." in done.out
    assert "one replay of the trace itself, no confidence" in done.out
    done = kailab(*ASKED, "--target", "longest wait < 10s", "-o", "json")
    found = json.loads(done.out)
    assert found["found"]["gpus"] == {"A100": 12}
    assert [(one["queue"], one["verdict"]) for one in found["queues"]] == [("trace", "gains")]
    kept = {path.name: path.stat().st_mtime_ns for path in (home / "studies" / "capacity-trace" / "runs").iterdir()}
    assert len(kept) == len(found["tried"]), "what was done is not done again"
    assert kailab(*ASKED, "--target", "longest wait < 10s", "--most", "1").code == 1


@pytest.mark.parametrize(
    "options, told",
    [
        (("--target", "wait < 1h"), "unknown measure 'wait'"),
        (("--target", "p99 wait < 1h", "--quota-by-share"), "expected at most one of them"),
        (("--target", "green p99 wait < 1h"), "no queue 'green'"),
        (("--target", "p99 wait < 1h", "--name", "No Name"), "--name"),
        (("--target", "p99 wait < 1h", "--for", "soon"), "--for"),
        (
            ("--target", "p99 wait < 1h", "--dask", "tcp://h:1", "--workers", "2"),
            "--workers: can't be used with --dask",
        ),
        ((), "--target"),
        (
            ("--target", "p99 wait < 1h", "--prices", "prices.yaml"),
            "--prices: no target needs prices; expected one such as 'cost < 1000'",
        ),
    ],
)
def test_what_can_not_be_is_refused(kailab, files, home, options, told) -> None:
    done = kailab(*ASKED, *options)
    assert (done.code, told in done.err) == (2, True), done.err
    assert not (home / "studies").exists()
