"""Differences between the embedded lab and a control plane that have a reason. docs/embedded-api.md lists them for users."""

from __future__ import annotations

import re
from typing import NamedTuple


class Accepted(NamedTuple):
    """``pattern``: a regular expression for ``OBJECT: SENTENCE`` of a difference."""

    pattern: str
    reason: str


ACCEPTED = (
    Accepted(
        r"^(Service|Ingress|NetworkPolicy)/.*the API server refuses it",
        "nothing here acts on it, so few rules between its fields are checked",
    ),
    Accepted(r"refuses it .*(at most|is too large)", "a lab bounds amounts, so that sums stay within 64 bits"),
    Accepted(
        r"refuses it .*there are \d+ in all: the gang can never start",
        "kailab refuses gangs that can never start; --force takes them",
    ),
    Accepted(
        r"^LimitRange/.*the embedded lab refuses it .*is negative",
        "an API server takes negative amounts in a LimitRange; a default of that kind would make each pod invalid",
    ),
    Accepted(
        r"^Pod/.*refuses it .*annotations\[(gpu-|nvidia\.com|kai\.scheduler)",
        "KAI's admission webhook refuses it, and beside a control plane without KAI there is none",
    ),
    Accepted(
        r'the API server refuses it .*in body must be of type \w+: "null"', "a field that is null is read as left out"
    ),
    Accepted(
        r"Queue/.*the embedded lab refuses it", "kailab checks the tree of queues, which KAI's API server does not"
    ),
)


def reason_for(about: str, text: str) -> str:
    """The reason for a difference, or ""."""
    line = f"{about}: {text}"
    return next((entry.reason for entry in ACCEPTED if re.search(entry.pattern, line, re.DOTALL)), "")
