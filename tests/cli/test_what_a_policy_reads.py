"""What docs/extending.md says that a policy may read is there, and a mistyped attribute is told with those that are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kailab.engine import JobView, Task
from kailab.engine.snapshot.records import PodGroup, Shape

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
TRACE = "name,submit,seconds,gpus\nfull,0,100,8\nlong,1,500,8\nshort,2,10,8\n"
FLEET = "{apiVersion: kailab.dev/v1, kind: Fleet, name: one, pools: [{name: n, count: 1, gpus: 8, gpuModel: A100, cpu: 64, memory: 256Gi}]}\n"


def example() -> str:
    (found,) = [
        text for text in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S) if "LeastWork" in text
    ]
    return found


def test_the_example_orders_jobs_by_their_work(kailab, home) -> None:
    (home / "least.py").write_text(example())
    (home / "trace.csv").write_text(TRACE)
    (home / "one.yaml").write_text(FLEET)
    done = kailab("replay", "trace.csv", "--fleet", "one.yaml", "--policy", "least.py:LeastWork", "--jobs", "jobs.csv")
    assert done.code == 0, done.err
    began = {line.split(",")[0]: line.split(",")[8] for line in (home / "jobs.csv").read_text().splitlines()}
    assert (began["short"], began["long"]) == ("100", "110")


def test_a_mistyped_attribute_is_told(kailab, home) -> None:
    (home / "mistyped.py").write_text(example().replace("task.expected_seconds", "task.expected_second"))
    (home / "trace.csv").write_text(TRACE)
    (home / "one.yaml").write_text(FLEET)
    done = kailab("replay", "trace.csv", "--fleet", "one.yaml", "--policy", "mistyped.py:LeastWork")
    assert done.code == 2
    assert (
        "'Task' object has no attribute 'expected_second'; did you mean expected_seconds? It has: accepted, created"
        in done.err
    )
    assert "mistyped.py, line " in done.err


@pytest.mark.parametrize(
    ("noun", "records"),
    [("job.", (JobView,)), ("job.group", (PodGroup,)), ("task.", (Task,)), ("task.shape", (Shape,))],
)
def test_each_attribute_of_the_table_is_there(noun: str, records: tuple[type, ...]) -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{noun}")]
    named = {name for row in rows for name in re.findall(rf"`{re.escape(noun.rstrip('.'))}\.(\w+)", row)}
    if noun in ("job.group", "task.shape"):
        named |= set(re.findall(r"`(\w+)`", rows[0].split("|")[2]))
    assert named
    assert named - {"None"} <= {field for record in records for field in record.__struct_fields__}
