"""The timeline that a failed test shows: short, and in the order in which things happened."""

from __future__ import annotations

from kailab.evidence.recorder import Recorder
from kailab.lab import Lab, expect


def test_a_brief_timeline_joins_cycles_and_has_a_bound(queue, job):
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(queue("owner", 16), queue("guest", 16), job("render", "guest", 32))
        lab.settle()
        lab.apply(job("train", "owner", 16))
        expect(lab.queue("owner")).running(gpus=16)
        lab.delete("Job", "train")
        entries, shorter = recorder.brief_timeline(60)
        texts = [entry.text for entry in entries]
        assert texts[texts.index("apply Job/train: 1 Job created") + 1] == (
            "evict 16 pods of render (guest) by reclaim for owner, until 16 s"
        )
        assert texts[-1] == "delete Job/train"
        assert shorter
        cut, shorter = recorder.brief_timeline(5)
        assert [entry.text for entry in cut] == [texts[0], f"... {len(texts) - 4} lines left out", *texts[-3:]]
        assert shorter
