"""Invalid parameters of kailab's own policies are refused in the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.engine.policies.contract import make_policy
from kailab.engine.policies.settings import PolicyChoice
from kailab.errors import PolicyError
from kailab.scheduler.settings.policies import policy_class


@pytest.mark.parametrize(
    "name, parameters",
    [
        ("themis", {"step": 0}),
        ("backfill", {"most": 0}),
        ("backfill", {"unknown": -5}),
        ("tiresias", {"thresholds": [60, -1]}),
        ("spill-over", {"gain": -1}),
        ("data-gravity", {"patience": -1}),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name: str, parameters: dict[str, Any]) -> None:
    kind = policy_class(name)
    with pytest.raises(PolicyError, match=f"policy '{name}': parameters: Expected `(int|float)` >=? "):
        make_policy(PolicyChoice(name=name, parameters=parameters), kind)
