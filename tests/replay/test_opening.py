"""Files that are not traces (devices, pipes, decompression bombs) are refused; other separators are read."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from kailab.errors import InputError
from kailab.replay import tables
from kailab.replay.readers import lines
from kailab.replay.trace import read_trace

SACCT = "JobIDRaw|Account|Submit|Start|End|ElapsedRaw|AllocTRES|State"


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full"])
def test_a_device_is_no_trace(path) -> None:
    with pytest.raises(InputError, match="is a device or a socket; expected a file"):
        read_trace(Path(path))


def test_a_pipe_is_no_trace(tmp_path) -> None:
    pipe = tmp_path / "trace.csv"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="is a pipe; expected a file"):
        read_trace(pipe)


@pytest.mark.parametrize(
    ("first", "fill", "told"),
    [
        (b"submit,seconds,gpus\n", b"\0", "a line has more than 1048576 characters"),
        (b"submit,seconds,gpus\n", b"\n", "decompresses to more than 200 times its size"),
        (b"submit,seconds,gpus\n", b"0,60,1,\n", "decompresses to more than 200 times its size"),
        (b"[", b" ", "decompresses to more than 200 times its size"),
        (b"", b"\0", "a line has more than 1048576 characters"),
    ],
)
def test_what_unpacks_to_far_more_than_a_trace_is_no_trace(tmp_path, monkeypatch, first, fill, told) -> None:
    monkeypatch.setattr(lines, "_SUSPICIOUS", 2**21)
    path = tmp_path / "trace.csv.gz"
    # Members one after the other are one content.
    path.write_bytes(gzip.compress(first) + gzip.compress(fill * (2**20 // len(fill))) * 5)
    with pytest.raises(InputError, match=told):
        read_trace(path, skip_broken=True)


def test_a_line_without_end_is_told_where_it_begins(tmp_path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"submit,seconds,gpus\n0,60,1\n" + b"1" * 2**21)
    with pytest.raises(InputError, match=r"trace.csv:3: a line has more than 1048576 characters"):
        read_trace(path)


def test_a_large_trace_that_packs_well_is_read(tmp_path) -> None:
    path = tmp_path / "trace.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("submit,seconds,gpus,name\n")
        file.writelines(f"{number},60,1,job-of-some-length-{number}\n" for number in range(50_000))
    assert len(read_trace(path).jobs) == 50_000


@pytest.mark.parametrize("separator", [",", "|", ";", "\t"])
def test_columns_may_be_separated_otherwise(trace_file, separator) -> None:
    header, line = (text.replace(",", separator) for text in ("submit,seconds,gpus,team", "5,60,2,blue"))
    (job,) = read_trace(trace_file(line, header=header)).jobs
    assert (job.arrival, job.seconds, job.gpus, job.team) == (5, 60, 2, "blue")


def test_an_unknown_separator_is_told(trace_file) -> None:
    with pytest.raises(
        InputError, match=r"trace.csv:1: only one column, 'submit@seconds@gpus'; expected several columns, separated by"
    ):
        read_trace(trace_file("1@2@3", header="submit@seconds@gpus"))


def test_jobs_of_slurm_are_read_as_sacct_prints_them(trace_file) -> None:
    when = "2026-01-05T08:00:00|2026-01-05T08:00:10|2026-01-05T09:00:10"
    trace = read_trace(
        trace_file(
            f"101|nlp|{when}|3600|billing=8,cpu=8,gres/gpu=2,mem=64G,node=1|COMPLETED",
            f"101.batch|nlp|{when}|3600|cpu=8,gres/gpu=2,mem=64G,node=1|COMPLETED",
            f"102|cv|{when}||cpu=16,gres/gpu:a100=4,gres/gpu:h100=4,mem=512000M,node=2|CANCELLED by 1000",
            "103|cv|2026-01-05T08:00:00|Unknown|Unknown|0|gres/gpu=2,node=1|PENDING",
            "104|cv|2026-01-05T08:00:00|2026-01-05T08:00:10|Unknown|50|gres/gpu=2,node=1|RUNNING",
            '105|"a" team|2026-01-05T08:00:00|Unknown|Unknown|7|cpu=4,mem=1G,node=1|COMPLETED',
            header=SACCT,
        )
    )
    assert trace.form == "sacct"
    told = [(job.name, job.team, job.seconds, job.gpus, job.pods, job.cpu_millis, job.memory_mib) for job in trace.jobs]
    assert told == [("101", "nlp", 3600, 2, 1, 8000, 65_536), ("102", "cv", 3600, 8, 2, 8000, 256_000)]
    assert [(one.line, one.reason) for one in trace.left_out] == [
        (3, "it is a step of a job"), (5, "its end is not recorded: it is PENDING"), (6, "its end is not recorded: it is RUNNING"), (7, "it held no GPU"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("soon|60|gres/gpu=2", "Submit is 'soon'"),
        ("2026-01-05T08:00:00|60|gres/gpu=two", r"AllocTRES has gres/gpu='two'; expected a whole number"),
        ("2026-01-05T08:00:00|60|gres/gpu=2,node=1,mem=lots", "AllocTRES has mem='lots'"),
    ],
)
def test_what_sacct_would_not_print_is_told(trace_file, fields, told) -> None:
    with pytest.raises(InputError, match=told):
        read_trace(trace_file(fields, header="Submit|ElapsedRaw|AllocTRES"))


@pytest.mark.parametrize(("text", "seconds"), [("00:59", 59), ("01:02:03", 3723), ("2-00:00:01", 172_801)])
def test_elapsed_time_of_slurm_is_read(trace_file, text, seconds) -> None:
    path = trace_file(f"2026-01-05T08:00:00|{text}|gres/gpu=1", header="Submit|Elapsed|AllocTRES")
    assert [job.seconds for job in read_trace(path).jobs] == [seconds]


@pytest.mark.parametrize("name", ["=cmd()", "+1+2", "-2+3", "@SUM(A1)", "\uff1dcmd()"])
def test_a_name_that_looks_like_a_formula_is_text_in_a_table(tmp_path, name) -> None:
    path = tmp_path / "jobs.csv"
    tables.write_table_file(
        path, ("name", "submit", "seconds", "gpus", "team"), [(name, 0, 60, 1, name), ("plain", -5, 60, 1, "-5")]
    )
    rows = path.read_text().splitlines()
    assert [rows[1].split(",")[place] for place in (0, 4)] == [f"'{name}"] * 2
    assert rows[2] == "plain,-5,60,1,-5"
    # A table that is read as a trace has the names again.
    path.write_text("\n".join(rows[:2]) + "\n")
    (job,) = read_trace(path).jobs
    assert (job.name, job.team) == (name, name)
