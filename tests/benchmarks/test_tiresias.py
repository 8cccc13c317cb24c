"""The comparison with Tiresias' simulator says which jobs are equal."""

from __future__ import annotations

from benchmarks import tiresias


def test_jobs_that_begin_and_end_as_there_are_counted(tmp_path, capsys) -> None:
    trace, simulated = tmp_path / "job.csv", tmp_path / "simulated.csv"
    trace.write_text("job_id,num_gpu,submit_time,duration\n0,2,0,100\n1,2,5,50\n2,1,6,10\n")
    # The third may not pass the second and starts beside it at 100 s: the simulated times of it are others.
    simulated.write_text("job_id,start_time,end_time\n0,0,100\n1,100,150\n2,150,161\n")
    tiresias.main([str(trace), "--gpus", "3", "--simulated", f"fifo={simulated}"])
    head, _, fifo, passing, *_ = capsys.readouterr().out.splitlines()
    assert head.startswith("| schedule | policies | JCT here | JCT there |")
    assert fifo == "| `fifo` | `strict-fifo` | 116.3 | 133.3 | 63.0 | 79.7 | 2 of 3 | 0 |"
    # Where jobs may pass it starts at once.
    assert passing == "| `fjf` | `fifo` | 85.0 | - | 31.7 | - | 0 of 3 | 0 |"
