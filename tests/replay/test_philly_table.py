"""The table of Philly under several policies: each replay is stored, and none is repeated."""

from __future__ import annotations

from benchmarks.philly import POLICIES, between, main

LINES = (
    "timestamp,duration,num_gpus,gpu_time,cluster",
    "2017-10-09 07:01:55,600.0,8,4800.0,blue",
    "2017-10-08 06:13:03,2951.0,1,2951.0,red",
    "2017-10-09 07:05:00,300.0,4,1200.0,red",
    "2017-10-10 00:00:00,60.0,1,60.0,blue",
)


def test_days_are_cut_out_whatever_the_order_of_lines() -> None:
    assert list(between(iter(LINES), "2017-10-09", "2017-10-10")) == [LINES[0], LINES[1], LINES[3]]


def test_each_policy_has_a_row_and_is_replayed_once(tmp_path, capsys) -> None:
    trace = tmp_path / "philly.csv"
    trace.write_text("\n".join(LINES) + "\n")
    arguments = [str(trace), "--gpus", "8", "--from", "2017-10-09", "--folder", str(tmp_path / "out")]
    main(arguments)
    table = capsys.readouterr().out
    assert [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]] == list(POLICIES)
    done = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.json")}
    assert len(done) == len(POLICIES)
    main(arguments)
    assert capsys.readouterr().out == table
    assert done == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.json")}
