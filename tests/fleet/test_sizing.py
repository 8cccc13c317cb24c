"""A fleet of another size: of the same kinds of nodes, and part of every larger one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.errors import InputError
from kailab.fleet.fleet import Fleet, Pool
from kailab.fleet.library import available_fleets
from kailab.fleet.reading import load_fleet
from kailab.fleet.sizing import Sizes

COUNTS = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from([1, 2, 4, 8]), st.sampled_from("AB")), min_size=1, max_size=5
)


def fleet_of(told: list[tuple[int, int, str]]) -> Fleet:
    pools = [
        Pool(name=f"p{number}", count=count, cpu="8", memory="8Gi", gpus=gpus, gpu_model=model)
        for number, (count, gpus, model) in enumerate(told)
    ]
    return Fleet(name="random", pools=(*pools, Pool(name="cpu", count=3, cpu="8", memory="8Gi")))


@given(COUNTS, st.integers(0, 60), st.integers(0, 60))
def test_a_size_has_what_it_says_and_is_part_of_every_larger_one(told: list, one: int, other: int) -> None:  # type: ignore[type-arg]
    sizes = Sizes(fleet_of(told))
    small, large = (sizes.in_proportion(count) for count in sorted((one, other)))
    assert sum(small.values()) == min(one, other)
    names = []
    for nodes in (small, large):
        fleet = sizes.of(nodes)
        assert {model.model: model.gpus for model in fleet.summary().models} == {
            model: count for model, count in sizes.gpus(nodes).items() if count
        }
        assert fleet.summary().cpu_only_nodes == 3
        names.append([node["metadata"]["name"] for node in fleet.nodes()])
        assert len(set(names[-1])) == len(names[-1])
        assert sizes.nodes_for(sizes.gpus(nodes)) == nodes
    assert set(names[0]) <= set(names[1])


@pytest.mark.parametrize("name", available_fleets())
def test_in_its_own_size_a_fleet_is_as_it_was(name: str) -> None:
    fleet = load_fleet(name)
    sizes = Sizes(fleet)
    assert sizes.of(sizes.given) == fleet


def test_kinds_of_a_model_are_mixed_as_they_were() -> None:
    sizes = Sizes(fleet_of([(4, 8, "A"), (2, 2, "A")]))
    assert sizes.gpus({"A": 3}) == {"A": 18}
    assert sizes.gpus({"A": 12}) == {"A": 72}


def test_a_number_of_gpus_takes_the_fewest_nodes_that_have_them() -> None:
    sizes = Sizes(fleet_of([(4, 8, "A"), (4, 4, "B")]))
    assert sizes.nodes_for({"A": 17}) == {"A": 3, "B": 4}
    assert sum(sizes.gpus(sizes.mixed_for(20)).values()) in (20, 24)


def test_models_that_there_are_not_are_told() -> None:
    with pytest.raises(InputError, match="no GPUs of the fleet are of the model 'C'; there are: A"):
        Sizes(fleet_of([(1, 8, "A")])).nodes_for({"C": 8})
    with pytest.raises(InputError, match="has no GPUs"):
        Sizes(Fleet(name="cpu", pools=(Pool(name="c", count=1, cpu="8", memory="8Gi"),))).mixed_for(8)
