"""``replay --prices`` on the command line."""

from __future__ import annotations

import json

TRACE = "name,submit,seconds,gpus,team\na,0,3600,8,blue\n"
PRICES = "apiVersion: kailab.dev/v1\nkind: Prices\nother: {perHour: 4, watts: 500, idleWatts: 50}\n"


def test_cost_and_energy_are_told(kailab, home) -> None:
    (home / "trace.csv").write_text(TRACE)
    (home / "prices.yaml").write_text(PRICES)
    asked = ("replay", "trace.csv", "--fleet", "lesson", "--prices", "prices.yaml")
    done = kailab(*asked, "-o", "json")
    assert done.code == 0, done.err
    costs = json.loads(done.out)["costs"]
    assert (costs["cost"], costs["idle_cost"], costs["kwh"]) == (128, 96, 5.2)
    assert "Cost: 128.00 USD, 96.00 of it for GPUs that nobody held; 16.00 for each GPU-hour" in kailab(*asked).out
    (home / "prices.yaml").write_text(PRICES.replace("other: {", "gpus: {X: {").replace("}\n", "}}\n"))
    done = kailab(*asked)
    assert (done.code, "no price for" in done.err, done.out) == (2, True, "")
