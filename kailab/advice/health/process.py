"""What kailab's scheduler says of itself as a process: whether it lives and is ready, and what it counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kailab.undertest.programs import fetch_url

_COUNTED = {
    "kai_e2e_scheduling_latency_milliseconds": "last_cycle_milliseconds",
    "kailab_cycle_seconds_count": "cycles",
    "kailab_cycle_seconds_sum": "cycle_seconds",
    "kailab_turn_failures_total": "failed_turns",
    "leader_election_master_status": "leads",
}
_REFUSED = "kailab_decisions_not_carried_out_total"


class Said(NamedTuple):
    """``metrics``: by our names, sums over their labels; ``refused_VERB``: decisions that were not carried out. ``troubles``: why it
    is not well."""

    metrics: dict[str, float]
    troubles: tuple[str, ...]


def ask(url: str) -> Said:
    """A scheduler that serves its health and metrics at ``url``."""
    troubles = [
        trouble for path in ("livez", "readyz") if (trouble := fetch_url(f"{url.rstrip('/')}/{path}")[1]) is not None
    ]
    text, trouble = fetch_url(f"{url.rstrip('/')}/metrics")
    if trouble is not None:
        troubles.append(trouble)
    # Once each: where nothing answers, all three say so.
    return Said(_read(text), tuple(dict.fromkeys(troubles)))


def _read(text: str) -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, float] = {}
    for name, labels, value in _samples(text_string_to_metric_families(text)):
        key = _COUNTED.get(name) or (f"refused_{labels.get('decision', '')}" if name == _REFUSED else "")
        if key:
            found[key] = found.get(key, 0.0) + value
    return found


def _samples(families: Iterable[object]) -> Iterable[tuple[str, dict[str, str], float]]:
    for family in families:
        for sample in family.samples:  # type: ignore[attr-defined]
            yield sample.name, sample.labels, sample.value
