"""The policy kinds of documents about KAI (``kai.nvidia.com``), field by field: which field of KAI's acts as it, or that KAI has none.

KAI itself knows none of these kinds: its quotas are Queues, its settings a SchedulingShard. Source: KAI's API types and scheduler.
"""

from __future__ import annotations

from kailab.advice.policykinds.meaning import Meaning, Verdict
from kailab.advice.policykinds.translating import KINDS, Field, Translation, translate

__all__ = ["KINDS", "Field", "Meaning", "Translation", "Verdict", "translate"]
