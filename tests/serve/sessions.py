"""Sessions as tests drive them: opened, changed, and what they and the record beside them then hold."""

from __future__ import annotations

import gzip
import json
from typing import Any

from kailab.evidence.journal import Journal
from kailab.lab import Lab
from kailab.serve.session import Session
from kailab.serve.view import View
from kailab.serve.wishes import Submit, Wish
from tests.serve.conftest import TEXTS
from tests.serve.forms import form_of, resolved

TEAMS, BORROWER, OWNER = (Submit(TEXTS[name]) for name in ("10-two-teams", "20-borrower", "30-owner"))


def done(session: Session, *wishes: Wish) -> str:
    for wish in wishes:
        told = session.apply(session.preview(wish)["id"])
    return told


def held(session: Session) -> dict[str, int]:
    """GPUs that each queue holds."""
    with Lab.resume(session.path, read_only=True) as lab:
        return {name: queue.allocated // 1000 for name, queue in lab.picture().shares.queues.items()}


def recorded(session: Session) -> list[str]:
    return [step.operation for step in Journal(session.path).whole().steps]


def told(view: View) -> tuple[Any, Any]:
    return resolved(form_of(view), view.chunks), json.loads(gzip.decompress(view.desk))
