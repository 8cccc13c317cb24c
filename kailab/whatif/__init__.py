"""What would become of a lab if something were done to it: tried on forks, and compared.

    found = what_if(lab, [Alternative("--drain n-0", drained(lab, "n-0"))], seconds=3600)
    found.comparisons[0].workloads

What stands before the change is the lab left alone for the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.exports import on_demand

if TYPE_CHECKING:
    from kailab.whatif.comparison import Comparison
    from kailab.whatif.outcome import Outcome
    from kailab.whatif.trial import Alternative, WhatIf, what_if
else:
    __getattr__ = on_demand(
        __name__,
        {
            "Alternative": "trial",
            "Comparison": "comparison",
            "Outcome": "outcome",
            "WhatIf": "trial",
            "what_if": "trial",
        },
    )

__all__ = ["Alternative", "Comparison", "Outcome", "WhatIf", "what_if"]
