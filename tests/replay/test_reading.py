"""Trace formats: what is read, and how broken lines are reported."""

from __future__ import annotations

import gzip
import re

import pytest

from kailab.errors import InputError
from kailab.replay.fleets import fleet_of_nodes
from kailab.replay.job import TraceJob
from kailab.replay.trace import read_trace

OPENB = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster"


def test_the_plain_form_has_jobs_by_arrival(trace_file) -> None:
    trace = read_trace(trace_file("late,90,60,2", "early,30,45.4,1", "also early,30,1,0.25"))
    assert trace.form == "csv"
    assert trace.jobs == [
        TraceJob(name="early", arrival=30, seconds=45, gpus=1, line=3),
        TraceJob(name="also early", arrival=30, seconds=1, gpus=1, share=250, line=4),
        TraceJob(name="late", arrival=90, seconds=60, gpus=2, line=2),
    ]


def test_all_columns_of_the_plain_form(trace_file) -> None:
    header = "submit,seconds,gpus,name,team,pods,share,cpu,memory_mib,models,priority"
    line = "2017-10-09 07:01:55,60,4,j,t,2,1,0.5,1024,A100|H100|A100,build"
    assert read_trace(trace_file(line, header=header)).jobs == [
        TraceJob(
            name="j", arrival=1507532515, seconds=60, gpus=4, pods=2, cpu_millis=500, memory_mib=1024,
            models=("A100", "H100"), team="t", priority="build", line=2,
        )
    ]  # fmt: skip


def test_columns_of_other_names_are_declared(trace_file) -> None:
    path = trace_file("x,5,60,2,eve", header="id,start,length,cards,user")
    declared = {"submit": "start", "seconds": "length", "gpus": "cards", "team": "user"}
    (job,) = read_trace(path, columns=declared).jobs
    assert (job.arrival, job.seconds, job.gpus, job.team) == (5, 60, 2, "eve")


@pytest.mark.parametrize(
    "columns, told",
    [
        ({"submit": "start", "seconds": "nothing"}, "the file has no column 'nothing'; it has: id, start"),
        ({"when": "start"}, "the form csv has no column 'when'; expected one of submit, seconds, gpus"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(trace_file, columns, told) -> None:
    with pytest.raises(InputError, match=told):
        read_trace(trace_file("x,5", header="id,start"), columns=columns)


def test_openb_has_shares_models_and_how_long_a_place_was_held(trace_file) -> None:
    path = trace_file(
        "p0,12000,16384,1,460,V100M16|V100M32,LS,Running,100,400,150",
        "p1,8000,1024,0,0,,BE,Pending,200,300,",
        "p2,8000,1024,8,1000,,BE,Failed,300,300,300",
        header=OPENB,
    )
    trace = read_trace(path)
    assert trace.form == "openb"
    assert trace.jobs == [
        TraceJob(
            name="p0", arrival=100, seconds=250, gpus=1, share=460, pods=1, cpu_millis=12000, memory_mib=16384,
            models=("V100M16", "V100M32"), line=2,
        ),
        TraceJob(name="p1", arrival=200, seconds=100, gpus=0, pods=1, cpu_millis=8000, memory_mib=1024, line=3),
        TraceJob(name="p2", arrival=300, seconds=1, gpus=8, pods=1, cpu_millis=8000, memory_mib=1024, line=4),
    ]  # fmt: skip


def test_philly_has_virtual_clusters_and_leaves_out_what_held_no_gpu(trace_file) -> None:
    trace = read_trace(
        trace_file("2017-10-09 07:01:55,66.0,16,66.0,11cb48", "2017-10-09 06:00:00,9.0,0,0,11cb48", header=PHILLY)
    )
    assert trace.form == "philly"
    assert [(job.arrival, job.seconds, job.gpus, job.team) for job in trace.jobs] == [(1507532515, 66, 16, "11cb48")]
    assert [(one.line, one.reason, one.broken) for one in trace.left_out] == [(3, "it held no GPU", False)]


HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"


def test_helios_has_a_pod_for_each_node_and_leaves_out_what_never_ran(trace_file) -> None:
    trace = read_trace(
        trace_file(
            "7,uA,vcA,16,64,2,FAILED,2020-06-09 18:41:27,2020-06-09 18:42:27,2020-06-09 18:46:36,249,60",
            "8,uA,vcB,3,6,2,COMPLETED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-09 18:41:28,0,0",
            "9,uB,vcB,0,4,1,COMPLETED,2020-06-09 18:41:29,2020-06-09 18:41:29,2020-06-09 18:45:29,240,0",
            "10,uB,vcB,8,4,1,CANCELLED,2020-06-09 18:41:30,,2020-06-09 18:45:29,0,239",
            header=HELIOS,
        )
    )
    assert trace.form == "helios"
    assert trace.jobs == [
        TraceJob(name="7", arrival=1591728087, seconds=249, gpus=16, pods=2, cpu_millis=32_000, team="vcA", line=2),
        TraceJob(name="8", arrival=1591728088, seconds=1, gpus=3, team="vcB", line=3),
    ]
    assert [(one.line, one.reason) for one in trace.left_out] == [(4, "it held no GPU"), (5, "it never ran")]


def test_acme_runs_from_start_to_end_whatever_its_duration_counts(trace_file) -> None:
    header = (
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,"
        "end_time,fail_time,stop_time,duration,queue,gpu_time"
    )
    at = "2023-05-17 11:{}+08:00".format
    trace = read_trace(
        trace_file(
            f"d,u,8,64,960,1000,100.0,Pretrain,CANCELLED,{at('28:42')},{at('28:54')},{at('30:04')},,,82,12.0,5248.0",
            f"e,u,1,8,120,1000,100.0,Eval,RUNNING,{at('28:42')},{at('28:54')},,,,82,12.0,5248.0",
            header=header,
        )
    )
    assert trace.form == "acme"
    assert trace.jobs == [
        TraceJob(
            name="d", arrival=1684294122, seconds=70, gpus=64, pods=8, cpu_millis=120_000, memory_mib=1_024_000,
            team="Pretrain", line=2,
        )
    ]  # fmt: skip
    assert [(one.line, one.reason) for one in trace.left_out] == [(3, "its end is not recorded")]


def test_pai_has_a_pod_for_each_instance_of_a_task(trace_file) -> None:
    trace = read_trace(
        trace_file(
            "j,worker,2.0,Terminated,100.0,160.0,600.0,29.296875,50.0,MISC",
            "j,ps,3.0,Terminated,100.0,160.0,400.0,1,0,MISC",
            "k,worker,1.0,Failed,100.0,160.0,400.0,1,800.0,V100",
            "l,worker,1.0,Failed,100.0,160.0,400.0,1,250.0,V100",
            "m,worker,1.0,Waiting,100.0,,400.0,1,100.0,V100",
            header="job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
        )
    )
    assert trace.form == "pai"
    assert [(one.name, one.gpus, one.share, one.pods, one.cpu_millis, one.memory_mib) for one in trace.jobs] == [
        ("j-worker", 2, 500, 2, 6000, 30_000),
        ("j-ps", 0, 1000, 3, 4000, 1024),
        ("k-worker", 8, 1000, 1, 4000, 1024),
    ]
    assert [(one.line, one.reason) for one in trace.left_out] == [
        (5, "it requests whole GPUs and a part of one in each pod"),
        (6, "its end is not recorded"),
    ]


BROKEN = [
    ("a,x,60,1", "submit is 'x'; expected seconds, or a date and time as 2017-10-09 07:01:55"),
    ("a,0,-1,1", "seconds is '-1'; expected a number from 0 to 1e+12"),
    ("a,0,nan,1", "seconds is 'nan'; expected a number from 0"),
    ("a,0,60,", "gpus is empty; expected a number"),
    ("a,0,60,1.5", "gpus is 1.5; expected a whole number, or less than 1"),
    ("a,0,60", "3 fields; expected 4, as in the header"),
    ("a,0,60,1,2", "5 fields; expected 4, as in the header"),
    ("a\x07,0,60,1", "expected printable text in UTF-8 or UTF-16"),
    ('"a,0,60,1', "a quote is not closed; expected one job per line"),
    ('"a"b,0,60,1', "invalid CSV: "),
    ("a,0,60,100001", "the job asks for 100001 GPUs; expected at most 100000"),
]


@pytest.mark.parametrize("line, reason", BROKEN)
def test_a_broken_line_is_an_error_with_its_number_and_reason(trace_file, line, reason) -> None:
    path = trace_file("fine,0,60,1", line)
    with pytest.raises(InputError) as told:
        read_trace(path)
    assert f"{path}:3: " in str(told.value)
    assert reason in str(told.value)
    assert f"{path}: 1 of 2 lines cannot be read; use --skip-broken to replay the others" in str(told.value)


def test_broken_lines_can_be_left_out_and_are_counted(trace_file) -> None:
    trace = read_trace(trace_file("fine,0,60,1", *(line for line, _ in BROKEN)), skip_broken=True)
    assert [job.name for job in trace.jobs] == ["fine"]
    assert [one.line for one in trace.broken] == list(range(3, 3 + len(BROKEN)))


def test_an_open_quote_takes_no_other_line_with_it(trace_file) -> None:
    trace = read_trace(trace_file("a,0,60,1", '"b,0,60,1', "c,0,60,1", '"d ""x"", y",0,60,1'), skip_broken=True)
    assert [(job.name, job.line) for job in trace.jobs] == [("a", 2), ("c", 4), ('d "x", y', 5)]
    assert [one.line for one in trace.broken] == [3]


def test_a_job_of_no_length_never_ran_and_is_counted(trace_file) -> None:
    trace = read_trace(trace_file("a,0,0,1", "b,0,0.2,1"))
    assert [(job.name, job.seconds) for job in trace.jobs] == [("b", 1)]
    assert [(one.line, one.reason, one.broken) for one in trace.left_out] == [(2, "it never ran", False)]


def test_jobs_that_no_replay_lasts_for_are_broken_lines(trace_file) -> None:
    path = trace_file("a,1000,60,1", "b,1000,316224001,1", "c,1000000999,60,1", "d,1000001000,60,1")
    with pytest.raises(InputError, match=r"trace.csv:3: the job runs for 316224001 s; expected at most 316224000 s"):
        read_trace(path)
    trace = read_trace(path, skip_broken=True)
    assert [job.name for job in trace.jobs] == ["a", "c"]
    assert [one.line for one in trace.broken] == [3, 5]
    told = "the job arrives 1000000000 s after the first job (line 2); expected less than 1000000000 s"
    assert trace.broken[1].reason == told


@pytest.mark.parametrize(
    "line, told",
    [
        ("b,1,60,1,A 100,,", "models is 'A 100', which is not valid in a Job: holds what can't be a label value"),
        ("b,1,60,1,,1e10,", "cpu is 1e+10, which is not valid in a Job: '10000000000000m' is not valid; expected 1000000000 at most"),
        ("b,1,60,1,,,1073741825", "memory is 1073741825 MiB, which is not valid in a Job: '1073741825Mi' is not valid; expected 1Pi at most"),
    ],
)  # fmt: skip
def test_what_no_job_can_ask_for_is_a_broken_line(trace_file, line, told) -> None:
    path = trace_file("a,0,60,1,A100|H100,4,1024", line, header="name,submit,seconds,gpus,models,cpu,memory_mib")
    with pytest.raises(InputError, match=re.escape(f"trace.csv:3: {told}")):
        read_trace(path)
    assert [job.name for job in read_trace(path, skip_broken=True).jobs] == ["a"]


def test_a_damaged_packed_trace_is_refused(tmp_path) -> None:
    whole = gzip.compress(b"name,submit,seconds,gpus\n" + b"".join(b"j%d,%d,60,1\n" % (n, n * n) for n in range(500)))
    for place in range(20, len(whole), 97):
        path = tmp_path / "damaged.csv.gz"
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        with pytest.raises(InputError, match=r"damaged.csv.gz"):
            read_trace(path)


def test_bytes_that_are_no_utf8_are_a_broken_line(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"name,submit,seconds,gpus\nok,0,1,1\n\xff\xfe,0,1,1\n")
    trace = read_trace(path, skip_broken=True)
    assert [one.line for one in trace.broken] == [3]
    assert [job.name for job in trace.jobs] == ["ok"]


def test_a_packed_trace_is_read_as_it_is(tmp_path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"submit,seconds,gpus\n0,60,1\n"))
    assert [job.name for job in read_trace(path).jobs] == ["line-2"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
def test_a_trace_is_read_in_each_encoding_with_a_byte_order_mark(tmp_path, encoding, packed) -> None:
    content = "\ufeffname,submit,seconds,gpus\r\nü,0,60,1\r\n\ud800,0,60,1\r\n".encode(encoding, "surrogatepass")
    path = tmp_path / "t.csv"
    path.write_bytes(gzip.compress(content) if packed else content)
    trace = read_trace(path, skip_broken=True)
    assert [(job.name, job.line) for job in trace.jobs] == [("ü", 2)]
    assert [one.line for one in trace.broken] == [3]


@pytest.mark.parametrize(
    "content, told",
    [
        (b"", "the file is empty"),
        (b"a,b\n1,2\n", "no known form has the columns"),
        (b"submit,seconds,gpus\n", "no line is a job that can be replayed$"),
        (b"submit,seconds,gpus\n0,0,1\n9,0,2\n", "no line is a job that can be replayed: 2 of 2 lines: "),
        (
            "submit,seconds,gpus\n0,60,1\n".encode("utf-16-le"),
            "t.csv: looks like UTF-16 text without a byte order mark",
        ),
        ("submit,seconds,gpus\n0,60,1\n".encode("utf-16") + b"x", "ends within a character of UTF-16"),
        (b'{"jobs": [{"vc": "a"}]}', "1: is an object in JSON; expected a list of jobs"),
        (b"submit,seconds,gpus,gpus\n0,60,1,2\n", "1: duplicate column 'gpus'; expected each column once"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path, content, told) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=told):
        read_trace(path)


def test_a_file_that_is_not_there_or_cut_off_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=r"can('t|not) be read"):
        read_trace(tmp_path / "nothing.csv")
    cut = tmp_path / "t.csv.gz"
    cut.write_bytes(gzip.compress(b"submit,seconds,gpus\n" + b"0,60,1\n" * 10_000)[:60])
    with pytest.raises(InputError, match="cannot be unpacked, it may be incomplete"):
        read_trace(cut)


def test_a_list_of_nodes_is_a_fleet(trace_file) -> None:
    path = trace_file("n-1,64000,262144,2,P100", "n-0,96000,393216,0,", header="sn,cpu_milli,memory_mib,gpu,model")
    fleet = fleet_of_nodes(path)
    first, second = fleet.nodes()
    assert first["metadata"]["name"] == "n-1"
    assert first["status"]["allocatable"] == {
        "cpu": "64000m", "memory": "262144Mi", "pods": "1000", "nvidia.com/gpu": "2",
    }  # fmt: skip
    assert first["metadata"]["labels"]["nvidia.com/gpu.product"] == "P100"
    assert "nvidia.com/gpu" not in second["status"]["allocatable"]


def test_a_list_of_nodes_may_miss_no_line(trace_file) -> None:
    path = trace_file("n-1,64000,262144,2,P100", "n-1,64000,262144,2,P100", header="sn,cpu_milli,memory_mib,gpu,model")
    with pytest.raises(InputError, match=r"trace.csv:3: duplicate node n-1"):
        fleet_of_nodes(path)


def test_where_all_lines_are_broken_it_is_told_why(trace_file) -> None:
    with pytest.raises(InputError, match="no line is a job that can be replayed: 2 of 2 lines: 3 fields; expected 4"):
        read_trace(trace_file("a,0,60", "b,0,60"), skip_broken=True)


SACCT = "JobIDRaw|Account|Submit|Start|End|ElapsedRaw|AllocTRES|State"


@pytest.mark.parametrize(
    "header, line, expected",
    [
        (SACCT, "7|nlp|2026-01-05T08:00:00|x|y|3600|billing=8,cpu=8,gres/gpu=2,mem=64G,node=1|COMPLETED", (3600, 2, 1, "nlp")),
        (SACCT + "|", "7|nlp|2026-01-05T08:00:00|x|y|60|cpu=8,gres/gpu:a100=4,node=2|TIMEOUT|", (60, 4, 2, "nlp")),
        (SACCT.replace("|", ";"), "7;nlp;2026-01-05T08:00:00;x;y;60;cpu=8,gres/gpu=4;FAILED", (60, 4, 0, "nlp")),
        (SACCT.replace("|", "^"), "7^nlp^2026-01-05T08:00:00^x^y^60^cpu=8,gres/gpu=4^FAILED", (60, 4, 0, "nlp")),
        ("JobID|Partition|Start|Elapsed|ReqTRES|NNodes", "7_3|a100|2026-01-05T08:00:00|1-00:00:10|gres/gpu=8|2", (86410, 8, 2, "a100")),
        ("JobID|User|Start|End|AllocGRES", "7|eve|2026-01-05T08:00:00|2026-01-05T09:00:00|gpu:a100:4(S:0-1)", (3600, 4, 0, "eve")),
        ("JobID|Submit|Start|ElapsedRaw|AllocTRES", "7|Unknown|2026-01-05T08:00:00|5|gres/gpu=1.00,mem=1.5T,cpu=2K", (5, 1, 0, "")),
    ],
)  # fmt: skip
def test_any_format_of_sacct_with_the_facts_is_read(trace_file, header: str, line: str, expected: tuple) -> None:
    (job,) = read_trace(trace_file(line, header=header)).jobs
    assert (job.seconds, job.gpus, job.pods, job.team) == expected


@pytest.mark.parametrize(
    "held, gpus, mig, milli",
    [
        ("billing=8,cpu=8,gres/gpu=2,gres/gpu:a100_3g.20gb=2,node=1", 2, "3g.20gb", 3000),
        ("gres/gpu:nvidia_h100_1g.10gb+me=4", 4, "1g.10gb", 1000),
        ("gres:gpu:2g.10gb:3(S:0)", 3, "2g.10gb", 2000),
        ("gres/gpu=2,gres/gpu:a100=2,gres/gpu:a100_3g.20gb=0", 2, "", 1000),
    ],
)
def test_instances_of_mig_are_read_from_the_type_that_slurm_gives_them(trace_file, held, gpus, mig, milli) -> None:
    (job,) = read_trace(trace_file(f"7|a|2026-01-05T08:00:00|x|y|60|{held}|COMPLETED", header=SACCT)).jobs
    assert (job.gpus, job.mig, job.share) == (gpus, mig, milli)


def test_a_job_of_sacct_that_is_there_twice_counts_once(trace_file) -> None:
    """Ids may begin again after a reset of Slurm's database, so that the time of submission belongs to it."""
    one = "8|a|2026-01-05T08:00:00|x|y|60|gres/gpu=1|COMPLETED"
    trace = read_trace(trace_file(one, one, one.replace("-01-", "-02-"), header=SACCT))
    assert len(trace.jobs) == 2
    assert [(left.line, left.reason, left.broken) for left in trace.left_out] == [
        (3, "it repeats the job of an earlier line", False)
    ]


@pytest.mark.parametrize(
    "line, why",
    [
        ("7.batch|a|2026-01-05T08:00:00|x|y|60|gres/gpu=1|COMPLETED", "a step of a job"),
        ("7_[3-9%2]|a|2026-01-05T08:00:00|x|y|0|gres/gpu=1|PENDING", "tasks of an array"),
        ("7|a|2026-01-05T08:00:00|x|Unknown|60|gres/gpu=1|RUNNING", "its end is not recorded"),
        ("7|a|2026-01-05T08:00:00|x|y|60|gres/gpu=1|REQUEUED", "an earlier run of a job that was requeued"),
        ("7|a|2026-01-05T08:00:00|Unknown|Unknown|0|gres/gpu=1|CANCELLED by 5", "it never ran"),
        ("7|a|2026-01-05T08:00:00|x|y|60||COMPLETED", "it held no GPU"),
        ("7|a|2026-01-05T08:00:00|x|y|60|gres/gpu=3,gres/gpu:a100_1g.5gb=2,gres/gpu:a100_3g.20gb=1|COMPLETED", "it held 3g.20gb and 1g.5gb"),
        ("7|a|2026-01-05T08:00:00|x|y|60|gres/gpu:1g.5gb=2,gres/gpu:a100=1|COMPLETED", "it held 1g.5gb and whole GPUs"),
    ],
)  # fmt: skip
def test_other_lines_of_sacct_are_left_out_with_their_reason(trace_file, line: str, why: str) -> None:
    good = "8|a|2026-01-05T08:00:00|x|y|60|gres/gpu=1|COMPLETED"
    trace = read_trace(trace_file(line, good, header=SACCT))
    assert len(trace.jobs) == 1
    (left,) = trace.left_out
    assert (left.line, left.broken) == (2, False)
    assert why in left.reason


def test_a_run_time_that_sacct_does_not_say_is_taken_from_start_and_end_or_told(trace_file) -> None:
    lines = (
        "1|a|2026-01-05T08:00:00|2026-01-05T08:00:00|2026-01-05T08:01:00|UNLIMITED|gres/gpu=1|COMPLETED",
        "2|a|2026-01-05T08:00:00|2026-01-05T08:00:00|Unknown|UNLIMITED|gres/gpu=1|COMPLETED",
        "3|a|2026-01-05T08:00:00|2026-01-05T08:00:00|2026-01-05T08:00:00|00:00:00|gres/gpu=1|COMPLETED",
        "4|a|2026-01-05T08:00:00|Unknown|Unknown|Unknown|gres/gpu=1|CANCELLED by 5",
    )
    header = SACCT.replace("ElapsedRaw", "Elapsed")
    trace = read_trace(trace_file(*lines, header, header=header))
    assert [(job.name, job.seconds) for job in trace.jobs] == [("1", 60)]
    assert [(one.line, one.reason) for one in trace.left_out] == [
        (3, "its run time is not recorded: Elapsed is UNLIMITED, End is Unknown"),
        (4, "it ran for less than a second"),
        (5, "it never ran"),
    ]


@pytest.mark.parametrize(
    "header, line, told",
    [
        ("7|a|2026-01-05T08:00:00|x|y|60|gres/gpu=1|COMPLETED", "8|a|2026-01-05T08:00:00|x|y|60|gres/gpu=1|COMPLETED", "no column names"),
        ("JobID|State|Elapsed", "7|COMPLETED|1:00:00", r"does not say when a job came .*; which GPUs it held"),
        ("JobID    JobName  Partition", "-------- -------- -----", "table for people.*sacct -P"),
        (SACCT.replace("|", ","), "7,nlp,2026-01-05T08:00:00,x,y,60,cpu=8,gres/gpu=4,FAILED", "may hold the separator ','.*sacct -P"),
        (SACCT, "7|a|2026-01-05T08:00:00|x|y|a while|gres/gpu=1|COMPLETED", "ElapsedRaw is 'a while'"),
        (SACCT, "7|a|2026-01-05T08:00:00|x|y|60|gres/gpu=one|COMPLETED", "gres/gpu='one'; expected a whole number"),
        (SACCT, f"7|a|2026-01-05T08:00:00|x|y|60|gres/gpu={10**20}|COMPLETED", "gres/gpu='10*', which is too large; expected at most 9 digits"),
        (SACCT, f"7|a|2026-01-05T08:00:00|x|y|60|gres/gpu=1,node=1,mem={10**20}G|COMPLETED", "mem='10*G', which is too large"),
        (SACCT.replace("ElapsedRaw", "Elapsed"), f"7|a|2026-01-05T08:00:00|x|y|{'9' * 5000}:00:00|gres/gpu=1|COMPLETED", "Elapsed is '9*, which is too large"),
        (SACCT.replace("AllocTRES", "ReqTRES"), "7|a|2026-01-05T08:00:00|x|y|60|gres/gpu=one|COMPLETED", "ReqTRES has gres/gpu='one'"),
    ],
)  # fmt: skip
def test_wrong_output_of_sacct_is_told(trace_file, header: str, line: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_trace(trace_file(line, header=header))


def test_openbs_lists_without_times_are_only_for_arrivals(trace_file) -> None:
    path = trace_file(
        "p-0,12000,16384,1,1000,",
        "p-1,6000,12288,1,460,T4|V100",
        header="name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec",
    )
    with pytest.raises(InputError, match="--arrivals-only"):
        read_trace(path)
    first, second = read_trace(path, arrivals_only=True).jobs
    assert (first.arrival, second.arrival, second.share, second.models) == (0, 1, 460, ("T4", "V100"))
