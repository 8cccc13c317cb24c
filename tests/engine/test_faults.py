"""Each fault of KAI that the engine imitates is declared once, described in the docs, and can be imitated apart from the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kailab.engine import faults
from kailab.engine.config import EngineConfig
from kailab.engine.faults import FAULTS, KaiFault, faults_behind, imitated_faults
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
from kailab.engine.relaxing.rules import Imitating
from kailab.engine.snapshot.gpu_requests import GpuFraction, GpuMemory
from kailab.engine.snapshot.records import Status
from tests.engine.conftest import NOW

ROOT = Path(__file__).parents[2]
MADE_AS_KAI_DOES = {5, 6, 7, 8}
NOT_IMITATED = {16}


def test_every_declared_fault_is_compared_and_has_its_own_number():
    declared = [value for value in vars(faults).values() if isinstance(value, KaiFault)]
    assert sorted(declared) == sorted(FAULTS)
    assert len({fault.number for fault in declared}) == len(declared)


def test_the_docs_describe_exactly_these_faults():
    text = (ROOT / "docs/conformance.md").read_text()
    described = {int(number) for number in re.findall(r"^\*\*(\d+)\. ", text, re.MULTILINE)}
    assert described == {fault.number for fault in FAULTS} | MADE_AS_KAI_DOES | NOT_IMITATED


def test_each_fault_is_asked_for_by_a_rule_of_the_engine():
    sources = "".join(path.read_text() for path in (ROOT / "kailab/engine").rglob("*.py"))
    names = {value: name for name, value in vars(faults).items() if isinstance(value, KaiFault)}
    assert all(f"imitates({names[fault]})" in sources for fault in FAULTS)


@pytest.mark.parametrize(
    ("setting", "numbers"), [(False, set()), (True, {fault.number for fault in FAULTS}), ((12, 99), {12})]
)
def test_a_setting_imitates_all_faults_or_some(setting, numbers):
    assert {fault.number for fault in imitated_faults(EngineConfig(imitate_faults=setting))} == numbers


def memory(team):
    team.node("node-1", gpus=2, gpu_memory_mib=40_000)
    team.job("asked", shape={"gpu": GpuMemory(devices=1, memory_mib=80_000)})


def held(team):
    team.node("node-1", gpus=2)
    team.job("open", gpus=0.2, on="node-1", groups=[("g",)])
    team.job("leaves", on="node-1", status=Status.RELEASING)
    team.job("asked", shape={"gpu": GpuFraction(devices=1, portion=500)})


def unbacked(team):
    team.node("node-1", gpus=8, pods=2)
    team.queue("other", quota=-1)
    team.job("running", queue="other", on="node-1")
    team.job("asked", gpus=0.5)


@pytest.mark.parametrize(
    ("situation", "number", "gets"),
    [(memory, 12, "binds"), (held, 17, "binds"), (unbacked, 18, "promises")],
)
def test_a_fault_is_told_apart_from_the_others(team, situation, number, gets):
    situation(team)
    config = EngineConfig(gpu_sharing="spread")
    cycles = RelaxedCycles(team.working().value(), config, NOW, ["asked"])
    others = tuple(fault.number for fault in FAULTS if fault.number != number)
    assert getattr(cycles(Imitating((number,))), gets)
    assert not getattr(cycles(Imitating(others)), gets)


def test_imitated_memory_of_promises_is_kais(world):
    """KAI forgets for which job it made room, so the job of the earlier turn gets it."""
    world.node("node-1", gpus=1)
    world.queue("team", quota=-1)
    world.job("early")
    world.job("late")
    assert world.decide(promised=("late",)).bound == {"late-0": "node-1"}
    assert world.decide(promised=("late",), imitate_faults=(3,)).bound == {"early-0": "node-1"}


@pytest.mark.parametrize(
    ("sufficient", "behind"),
    [
        ([{2}], (2,)),
        ([{2}, {4}], (2, 4)),
        ([{2, 4}], (2, 4)),
        ([set()], ()),
    ],
)
def test_the_faults_behind_an_outcome_are_found_alone_or_together(sufficient, behind):
    """``sufficient``: sets of faults, of which any leads to the outcome, also with others."""

    def same(faults):
        return any(needed <= {fault.number for fault in faults} for needed in sufficient)

    found = faults_behind(FAULTS, same)
    assert tuple(fault.number for fault in found.faults) == behind
    assert found.together == (sufficient == [{2, 4}])
