"""Sessions as tests drive them: opened, changed, and what they and the record beside them then hold."""

from __future__ import annotations

import gzip
import json
from typing import Any

from kailab.evidence.lab_record import LabRecord
from kailab.lab import Lab
from kailab.serve.actions import PageAction, SubmitManifests
from kailab.serve.session import LabSession
from kailab.serve.view import PageView
from tests.serve.conftest import TEXTS
from tests.serve.forms import form_of, resolved

TEAMS, BORROWER, OWNER = (SubmitManifests(TEXTS[name]) for name in ("10-two-teams", "20-borrower", "30-owner"))


def done(session: LabSession, *wishes: PageAction) -> str:
    for wish in wishes:
        told = session.apply(session.preview(wish)["id"])
    return told


def held(session: LabSession) -> dict[str, int]:
    """GPUs that each queue holds."""
    with Lab.resume(session.path, read_only=True) as lab:
        return {name: queue.allocated // 1000 for name, queue in lab.picture().shares.queues.items()}


def recorded(session: LabSession) -> list[str]:
    return [step.operation for step in LabRecord(session.path).whole().steps]


def told(view: PageView) -> tuple[Any, Any]:
    return resolved(form_of(view), view.chunks), json.loads(gzip.decompress(view.editable))
