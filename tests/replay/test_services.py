"""Inference services that follow the time of the day, beside the jobs of a trace."""

from __future__ import annotations

import pytest

from kailab.errors import InputError
from kailab.model.prices import GpuPrice, Prices
from kailab.replay import tables
from kailab.replay.queues import one_queue, without_quota
from kailab.replay.services import InferenceService, beyond_quotas, read_services
from kailab.replay.summary import summarise
from kailab.replay.trace import read_trace

HOUR = 3600
HEADER = "name,queue,gpus,least,most,peak"


def service(least: int, most: int, peak: float = 12, milli: int = 1000) -> InferenceService:
    return InferenceService("search", "trace", milli, least, most, round(peak * HOUR), "inference")


def times(replayed):
    return {row[0]: (row[8], row[9]) for row in tables.job_rows(replayed)}


def test_training_waits_for_the_trough(trace_file, replayed) -> None:
    # At midnight no replica of 8 is wanted, at noon all of them are; half of them at six and at eighteen o'clock.
    path = trace_file(f"night,0,{HOUR},8", f"noon,{12 * HOUR},600,8", f"half,{12 * HOUR + 60},600,4")
    done = replayed(path, "one", services=[service(0, 8)])
    began = {name: times(done)[name][0] / HOUR for name in ("night", "half", "noon")}
    assert began["night"] == 0
    # Non-preemptible replicas leave half of the GPUs some minutes after eighteen o'clock, and all of them near midnight.
    assert 17.5 < began["half"] < 18.5
    assert 22 < began["noon"] < 24
    assert not done.faults


def test_what_is_served_is_counted(trace_file, replayed) -> None:
    # At midnight, when most is wanted, a job that can't be evicted has all GPUs for three hours.
    header = "name,submit,seconds,gpus,priority"
    path = trace_file(f"long,0,{3 * HOUR},8,inference", f"last,{10 * HOUR},60,1,", header=header)
    late = InferenceService("search", "trace", 1000, 0, 4, 0, "inference")
    (found,) = summarise(replayed(path, "one", services=[late], lasting=24 * HOUR)).services
    # A cosine between 0 and 4 is 2 in the mean.
    assert found.wanted == pytest.approx(48, abs=0.5)
    assert found.served < found.wanted
    (alone,) = summarise(replayed(trace_file("a,0,60,1"), "one", services=[late], lasting=24 * HOUR)).services
    assert alone.served == pytest.approx(alone.wanted, abs=0.1)


def test_shares_of_gpus_serve_too(trace_file, replayed) -> None:
    done = replayed(trace_file("a,0,600,7"), "one", services=[service(2, 2, milli=500)], lasting=HOUR)
    (found,) = done.served
    # Both share one of the eight GPUs; which of them comes first costs a second.
    assert found.wanted == 2.0
    assert found.served == pytest.approx(2.0, abs=0.002)
    assert times(done)["a"][0] <= 2


def test_a_job_that_never_fits_ends_the_replay_after_a_day(trace_file, replayed) -> None:
    done = replayed(trace_file("never,0,600,8"), "one", services=[service(1, 2)])
    assert [unstarted.example for unstarted in done.unbegun] == ["never"]
    assert done.ended - done.began <= 25 * HOUR


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a,nobody,1,0,4,12", "services.csv:2: no queue 'nobody'"),
        ("a,q,1.5,0,4,12", "services.csv:2: gpus is '1.5'; expected a whole number, or less than 1"),
        ("a,q,1,5,4,12", "services.csv:2: least is 5 and most is 4"),
        ("a,q,1,0,4,24", "services.csv:2: peak is '24'; expected an hour"),
        ("A b,q,1,0,4,1", "services.csv:2: name is 'A b'"),
        (",q,1,0,4,1", "services.csv:2: name is ''"),
    ],
)
def test_a_service_that_can_not_be_is_told(trace_file, line, said) -> None:
    with pytest.raises(InputError) as caught:
        read_services(trace_file(line, header=HEADER, name="services.csv"), ["q"])
    assert said in str(caught.value)


def test_replicas_that_the_quota_keeps_from_starting_are_told(trace_file) -> None:
    trace = read_trace(trace_file("a,0,60,1"))
    (told,) = beyond_quotas([service(1, 4), service(1, 2, milli=500)], without_quota(trace))
    assert told.startswith("queue trace: services want up to 5 GPUs for non-preemptible replicas, and its quota is 0")
    assert not beyond_quotas([service(1, 4)], one_queue(trace))
    assert not beyond_quotas([service(1, 4)._replace(priority="train")], without_quota(trace))


def test_an_unknown_priority_and_prices_are_refused(trace_file, replayed) -> None:
    path = trace_file("a,q,1,0,4,1,huge", header=f"{HEADER},priority", name="services.csv")
    with pytest.raises(InputError, match="no PriorityClass 'huge'"):
        read_services(path, ["q"])
    prices = Prices(currency="USD", gpus={"A100": GpuPrice(per_hour=1.0)})
    with pytest.raises(InputError, match="expected no prices with services"):
        replayed(trace_file("a,0,60,1"), "one", services=[service(1, 2)], prices=prices)
