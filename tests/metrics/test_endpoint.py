"""`kailab metrics` and its endpoint, as users and Prometheus meet them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed

from kailab.cli.main import app
from kailab.evidence.metrics.openmetrics import MetricsEndpoint
from kailab.lab import Lab
from kailab.lab.metric_samples import sample_metrics
from tests.metrics.conftest import TREE, job

Kailab = Callable[..., str]


@pytest.fixture
def kailab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kailab:
    monkeypatch.chdir(tmp_path)

    def call(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, list(words), prog_name="kailab")
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.output

    return call


@pytest.fixture
def used(kailab: Kailab, tmp_path: Path) -> Kailab:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([*TREE, job("a", "team-a", 32), job("b", "team-b", 8)]))
    kailab("up")
    kailab("apply", "-f", "all.yaml")
    return kailab


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {(one.name, frozenset(one.labels.items())): one.value for each in parsed(text) for one in each.samples}


def test_of_the_lab_as_it_is_with_what_its_record_knows(used: Kailab) -> None:
    told = samples(used("metrics"))
    assert told["kai_queue_depth_total", frozenset()] >= 0
    assert told["kai_scheduling_decisions_total", frozenset({("decision", "accept")})] >= 32
    assert told["kailab_gpus", frozenset({("state", "all")})] == 32


def test_over_time_and_of_evidence_the_same(used: Kailab, tmp_path: Path) -> None:
    over_time = used("metrics", "--over-time", "--every", "1s")
    used("evidence", "capture")
    assert used("metrics", "--evidence", "lab/by-hand", "--every", "1s") == over_time
    assert "kailab_gpus" in over_time


def test_dashboard_and_rules(kailab: Kailab) -> None:
    assert json.loads(kailab("metrics", "dashboard"))["panels"]
    assert yaml.safe_load(kailab("metrics", "rules"))["groups"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 2, "no lab"),
        (("--every", "1s"), 2, "--every needs --evidence or --over-time"),
        (("--over-time", "--listen", "0"), 2, "can't be used together"),
        (("--over-time", "rules"), 2, "--over-time can't be used with `rules`"),
        (("--listen", "127.0.0.1:web"), 2, "expected [ADDRESS:]PORT"),
        (("--evidence", "nosuch"), 2, "nosuch"),
    ],
)
def test_bad_input(kailab: Kailab, words: tuple[str, ...], code: int, told: str) -> None:
    assert told in kailab("metrics", *words, code=code)


@pytest.fixture
def endpoint() -> Iterator[tuple[MetricsEndpoint, Lab]]:
    with Lab.open() as lab:
        lab.apply(*TREE)
        lab.settle()
        with MetricsEndpoint("127.0.0.1", 0, lambda: sample_metrics(lab)) as served:
            threading.Thread(target=served.serve, daemon=True).start()
            yield served, lab


def test_each_scrape_is_of_the_lab_as_it_is_then(endpoint: tuple[MetricsEndpoint, Lab]) -> None:
    served, lab = endpoint
    held = frozenset({("queue", "team-a")})
    with urllib.request.urlopen(served.url) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        assert samples(answer.read().decode())["kailab_gpu_utilisation_ratio", held] == 0
    lab.apply(job("a", "team-a", 8))
    lab.settle()
    with urllib.request.urlopen(served.url) as answer:
        assert samples(answer.read().decode())["kailab_gpu_utilisation_ratio", held] == 0.25


@pytest.mark.parametrize(
    ("path", "host", "code"), [("/", "", 404), ("/metrics", "evil.example", 403), ("/metrics/../etc/passwd", "", 404)]
)
def test_what_is_refused(endpoint: tuple[MetricsEndpoint, Lab], path: str, host: str, code: int) -> None:
    request = urllib.request.Request(
        endpoint[0].url.removesuffix("/metrics") + path, headers={"Host": host} if host else {}
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert caught.value.code == code


def test_a_port_that_is_taken_is_told(used: Kailab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "can't listen" in used("metrics", "--listen", str(taken.getsockname()[1]), code=2)


def test_the_command_serves_until_it_is_interrupted(used: Kailab) -> None:
    command = [sys.executable, "-m", "kailab", "metrics", "--listen", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(url) as answer:
            assert b"kai_queue_info" in answer.read()
        process.send_signal(2)
        process.communicate(timeout=60)
    assert process.returncode == 130
