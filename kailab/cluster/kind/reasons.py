"""Why kind could not do something, out of the pages that it prints."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile, pairwise

_KIND = "ERROR:"
_KUBEADM = "error:"
_COMMAND = ': command "'


def reason(said: str) -> str:
    """What kind gave as its error; where that is a command in the node that failed, the command's own error with it."""
    lines = said.splitlines()
    errors = [line.strip().removeprefix(_KIND).strip() for line in lines if line.strip().startswith(_KIND)]
    cause = " ".join(_cause(lines))
    if errors and cause:
        # Which command, and that it failed, says less than what it said.
        return f"{errors[-1].partition(_COMMAND)[0]}: {cause}"
    words = [line.strip() for line in lines if line.strip()]
    return (errors or words or ["kind gave no reason"])[-1]


def _cause(lines: list[str]) -> Iterator[str]:
    """The error of kubeadm, which may have several lines. A stack follows: names of functions, each with a line that is indented."""
    left = list(dropwhile(lambda line: not line.startswith(_KUBEADM), lines))
    for line, after in pairwise([*left, ""]):
        if after.startswith("\t") or line.startswith("To see the stack trace"):
            return
        if line.strip():
            yield line.removeprefix(_KUBEADM).strip()
