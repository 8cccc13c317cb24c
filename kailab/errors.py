"""Every exception kailab raises on purpose, in one tree.

The command line turns any ``KailabError`` into one message on stderr and the class's ``exit_code``; a traceback is
a defect. Messages say what is wrong, where (file, line, object, field) and what was expected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# C0 without tabs and line ends (a carriage return only before one), DEL, C1; characters that turn the direction of text or end lines for some
# programs only; halves of surrogate pairs, which no terminal is sent.
_STEERING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]|\r(?!\n)"
)

LONGEST_MESSAGE = 8_000
"""Characters of one error's message. A value of the user's that is quoted in it may have megabytes."""


def escaped(text: str) -> str:
    r"""Text in which each character that would steer a terminal, or make text look like other text, is shown as an escape sequence. Texts of
    objects, of files and of other programs can hold any character. JSON stays JSON.

    >>> escaped("no \x1b]0;TITLE\x07 room")
    'no \\u001b]0;TITLE\\u0007 room'
    """
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def printable(text: str) -> str:
    """Text of at most ``LONGEST_MESSAGE`` characters, without those that would steer a terminal: they are shown escaped. Lines
    stay. Of a longer text the middle is left out, so that what was expected, at its end, can still be read."""
    if len(text) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        text = f"{text[:half]} ... ({len(text) - 2 * half} characters left out) ... {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def describe_error(error: BaseException) -> str:
    """What somebody else's code raised, for a message: its type, and what it says if it says anything."""
    try:
        said = str(error)
    except Exception:  # its own code, too
        said = ""
    return printable(f"{type(error).__name__}: {said}" if said else type(error).__name__)


class KailabError(Exception):
    """Base of all errors that are for the user to read."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Where:
    """The place an input error is at. Empty parts are left out of the text.

    >>> str(Where(file="q.yaml", line=7, object="Queue/team-a", field="spec.resources.gpu.quota"))
    'q.yaml:7: Queue/team-a: spec.resources.gpu.quota'
    """

    file: str = ""
    line: int = 0
    object: str = ""
    field: str = ""

    def __str__(self) -> str:
        file = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return ": ".join(part for part in (file, self.object, self.field) if part)


class InputError(KailabError):
    """Something the user gave (manifest, fleet, option, file) can't be used."""

    def __init__(self, message: str, where: Where | None = None) -> None:
        self.message = printable(message)
        self.where = where or Where()
        prefix = printable(str(self.where))
        super().__init__(f"{prefix}: {self.message}" if prefix else self.message)


class InputErrors(InputError):
    """Several input errors found in one pass; all are shown."""

    def __init__(self, errors: list[InputError]) -> None:
        self.errors = errors
        Exception.__init__(self, "\n".join(str(error) for error in errors))
        self.message = str(self)
        self.where = errors[0].where if errors else Where()

    @classmethod
    def of(cls, errors: list[InputError]) -> InputError:
        """What to raise for the faults of one pass: a single one as it is."""
        return errors[0] if len(errors) == 1 else cls(errors)

    def __reduce__(self) -> tuple[type[InputErrors], tuple[list[InputError]]]:
        return InputErrors, (self.errors,)


class PolicyError(KailabError):
    """A policy that somebody else wrote is not there, or did not answer as it must."""


class ExtensionError(KailabError):
    """What another distribution brings for kailab can't be used."""


class StateError(KailabError):
    """The saved state of a lab is missing, in use or damaged."""


class EvidenceError(KailabError):
    """Evidence can't be written, read or does not verify."""


class ApiError(KailabError):
    """A cluster refused a request. ``reason`` is the Kubernetes status reason (``NotFound``, ``Conflict`` ...).

    ``doubtful``: nobody knows; it may have been carried out all the same."""

    reason = "InternalError"
    code = 500
    doubtful = False


class NotFound(ApiError):
    reason = "NotFound"
    code = 404


class AlreadyExists(ApiError):
    reason = "AlreadyExists"
    code = 409


class Conflict(ApiError):
    """resourceVersion given is not the stored one."""

    reason = "Conflict"
    code = 409


class Invalid(ApiError):
    """The object does not pass validation. ``field`` names the field at fault."""

    reason = "Invalid"
    code = 422

    def __init__(self, message: str, field: str = "") -> None:
        self.field = field
        super().__init__(message)


class Gone(ApiError):
    """A watch was asked to resume from a resourceVersion that is no longer kept."""

    reason = "Expired"
    code = 410


class Unauthorized(ApiError):
    """The server does not know who asks: credentials wrong or expired."""

    reason = "Unauthorized"
    code = 401


class Forbidden(ApiError):
    """The server knows who asks and does not allow it."""

    reason = "Forbidden"
    code = 403


class Unavailable(ApiError):
    """The server could not be reached, or was too busy, for as long as was waited for it."""

    reason = "ServiceUnavailable"
    code = 503


class ConnectError(KailabError):
    """A cluster can't be used at all: no kubeconfig, no server, no credentials, or not the objects that are needed."""


class ExpectationFailed(AssertionError):
    """An expectation about a lab did not hold; the text says expected, seen, and why."""

    def __init__(self, *words: object) -> None:
        # Test runners write it to a terminal as it is.
        super().__init__(*(escaped(word) if isinstance(word, str) else word for word in words))


class NothingThere(ExpectationFailed):
    """An expectation about what there is not and never was in the lab: a name mistyped, most likely."""
