"""The figure of a replay has the numbers of its tables."""

from __future__ import annotations

import pytest

from kailab.errors import InputError
from kailab.evidence.metrics import figures
from kailab.replay import plotting

TEAMS = "name,submit,seconds,gpus,team"
LINES = ("a,0,60,8,blue", "b,10,30,8,red", "c,20,30,4,blue", "never,30,60,16,red")


def test_the_figure_tells_what_the_tables_tell(trace_file, replayed, tmp_path) -> None:
    done = replayed(trace_file(*LINES, header=TEAMS))
    waits = {queue: (seconds, jobs) for queue, seconds, jobs in plotting.waits_by_queue(done)}
    assert waits == {"blue": ([0, 40], 2), "red": ([80], 2)}
    # b, c and the last wait until c begins at 60 and b at 100; the first began as it came.
    assert plotting.waiting_over_time(done) == ([0, 10, 20, 30, 60, 90, done.ended - done.began], [0, 1, 2, 3, 2, 1, 1])
    held, _, parts = plotting.figure_of(done).axes
    assert {line.get_label(): list(line.get_ydata()) for line in parts.lines} == {
        "blue": [0.5, 1.0, 1.0],
        "red": [0.5, 0.5],  # one of two never begins
    }
    assert [text.get_text() for text in held.get_legend().get_texts()] == ["held", "all GPUs"]
    for suffix in figures.SUFFIXES:
        figures.save_figure(plotting.figure_of(done), tmp_path / f"replay{suffix}")
        assert (tmp_path / f"replay{suffix}").stat().st_size


@pytest.mark.parametrize(
    "name, told", [("a.gif", "ends in .png, .svg, .pdf"), ("no/a.png", "the folder .* does not exist")]
)
def test_where_no_figure_can_be_is_told_first(tmp_path, name, told) -> None:
    with pytest.raises(InputError, match=told):
        plotting.check_figure_target(tmp_path / name)
