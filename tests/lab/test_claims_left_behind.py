"""Which claims a lab on an API server takes out with its StatefulSets."""

import pytest

from kailab.lab.venues.kubernetes import claims_of_sets

SET = {
    "metadata": {"name": "db", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:10Z"},
    "spec": {
        "selector": {"matchLabels": {"app": "db"}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}, {"metadata": {"name": "logs"}}],
    },
}


def claim(name: str = "data-db-0", **metadata: object) -> dict:
    meta = {"namespace": "team", "labels": {"app": "db"}, "creationTimestamp": "2026-01-01T00:00:10Z"}
    return {"metadata": {"name": name, **meta, **metadata}}


@pytest.mark.parametrize("name", ["data-db-0", "data-db-17", "logs-db-0"])
def test_claims_made_from_its_templates_are_the_sets(name):
    assert claims_of_sets([SET], [claim(name)]) == [claim(name)]


@pytest.mark.parametrize(
    "other",
    [
        claim("data-db"),
        claim("data-db-x"),
        claim("data-db-0-0"),
        claim("data-other-0"),
        claim("more-db-0"),
        claim(namespace="elsewhere"),
        claim(labels={"app": "mine"}),
        claim(creationTimestamp="2026-01-01T00:00:09Z"),  # it was there before: somebody's data
    ],
)
def test_claims_of_others_are_not(other):
    assert claims_of_sets([SET], [other]) == []
