"""Policy kinds in documents about KAI (``kai.nvidia.com``), field by field: the field of KAI that acts this way, or that KAI has none.

KAI itself knows none of these kinds: its quotas are Queues, its settings a SchedulingShard. ``translating`` has the table of fields,
``builders`` the rule of each field, ``meaning`` their result. Source: KAI's API types and scheduler.
"""

from __future__ import annotations

from kailab.advice.policykinds.meaning import FieldVerdict, Meaning
from kailab.advice.policykinds.translating import KINDS, TranslatedField, Translation, translate

__all__ = ["KINDS", "FieldVerdict", "Meaning", "TranslatedField", "Translation", "translate"]
