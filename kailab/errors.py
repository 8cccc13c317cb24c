"""The exceptions that kailab raises on purpose.

The command line prints a ``KailabError`` as one message on stderr and exits with the class's ``exit_code``. A traceback is
a defect. A message says what is wrong, where (file, line, object, field), what was expected and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

# Control characters (C0 except tab and line feed, and a carriage return that does not precede one; DEL; C1), characters that change the direction
# of text or end a line in some programs only, and lone surrogates.
_STEERING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]|\r(?!\n)"
)

LONGEST_MESSAGE = 8_000
"""Limit in characters of an error's message, because a quoted value can have megabytes."""


_MOST_SHOWN = 120
_MOST_ATTRIBUTES = 40
"""The most attributes that a message lists; an object with more is a module or the like."""


def escaped(text: str) -> str:
    r"""Return the text with every character escaped that controls a terminal or disguises text. Text from objects, files and other
    programs can contain any character. JSON stays JSON.

    >>> escaped("no \x1b]0;TITLE\x07 room")
    'no \\u001b]0;TITLE\\u0007 room'
    """
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def printable(text: str) -> str:
    """Return the text with unprintable characters escaped, except line ends. The middle of a text longer than ``LONGEST_MESSAGE``
    characters is left out, because its end usually says what was expected."""
    if len(text) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        text = f"{text[:half]} ... ({len(text) - 2 * half} characters left out) ... {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def describe_error(error: BaseException) -> str:
    """Return the type and the message of an exception raised by code outside kailab. For an attribute that an object does not have,
    also those that it has."""
    try:
        message = str(error) + _attributes(error)
    except Exception:  # __str__ is foreign code too
        message = ""
    return printable(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def _attributes(error: BaseException) -> str:
    """What can be read of the object of an AttributeError: the nearest name if there is one, and all; empty for other errors."""
    if not isinstance(error, AttributeError) or error.obj is None or isinstance(error.obj, type):
        return ""
    # Imported here because it is only needed after a mistake.
    import difflib

    names = [name for name in dir(error.obj) if not name.startswith("_")]
    if not names:
        return ""
    close = difflib.get_close_matches(str(error.name), names, 1)
    meant = f"; did you mean {close[0]}?" if close else ""
    if len(names) > _MOST_ATTRIBUTES:
        return meant
    return f"{meant} It has: {', '.join(names)}" if meant else f"; it has: {', '.join(names)}"


class KailabError(Exception):
    """Base of all errors that are shown to the user."""

    exit_code = 2

    def data(self) -> list[dict[str, str | int]]:
        """Each error for programs."""
        return [{**Where().data(), "message": str(self)}]


@dataclass(frozen=True, slots=True)
class Where:
    """The location of an input error. Empty parts are left out of the text.

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

    def data(self) -> dict[str, str | int]:
        """For programs."""
        return {"file": self.file, "line": self.line, "object": self.object, "field": self.field}


class InputError(KailabError):
    """A manifest, fleet, option or file of the user can't be used."""

    def __init__(self, message: str, where: Where | None = None) -> None:
        self.message = printable(message)
        self.where = where or Where()
        # A file's name may have line ends, which would tear the message apart.
        prefix = printable(str(self.where)).replace("\n", "\\n")
        super().__init__(f"{prefix}: {self.message}" if prefix else self.message)

    def data(self) -> list[dict[str, str | int]]:
        """The error for programs."""
        return [{**self.where.data(), "message": self.message}]


class InputErrors(InputError):
    """Several input errors of one pass. ``data`` has all of them, the text the first ``_MOST_SHOWN``."""

    def __init__(self, errors: list[InputError]) -> None:
        self.errors = errors
        shown = [str(error) for error in errors[:_MOST_SHOWN]]
        if len(errors) > _MOST_SHOWN:
            shown.append(f"and {len(errors) - _MOST_SHOWN} more errors")
        Exception.__init__(self, "\n".join(shown))
        self.message = str(self)
        self.where = errors[0].where if errors else Where()

    def data(self) -> list[dict[str, str | int]]:
        """All errors for programs."""
        return [record for error in self.errors for record in error.data()]

    @classmethod
    def of(cls, errors: list[InputError]) -> InputError:
        """Return the error to raise for a list of errors: a single one unchanged."""
        return errors[0] if len(errors) == 1 else cls(errors)

    def __reduce__(self) -> tuple[type[InputErrors], tuple[list[InputError]]]:
        return InputErrors, (self.errors,)


class PolicyError(KailabError):
    """A policy of another distribution is missing, or its answer does not follow the contract."""


class ExtensionError(KailabError):
    """An extension of another distribution can't be used."""


class StateError(KailabError):
    """The saved state of a lab is missing, in use or damaged."""


class NoLabHere(StateError):
    """No lab is where a command looks for one."""


class NoStateFile(StateError):
    """A file is no lab's file. It may be anything of the user's, so nobody deletes it."""


class EvidenceError(KailabError):
    """Evidence can't be written or read, or does not verify."""


@contextmanager
def os_errors_as(kind: type[KailabError], problem: str) -> Iterator[None]:
    """Raise ``kind`` in place of an OSError in the block. Its message is ``problem`` and the reason that the system gives."""
    try:
        yield
    except OSError as error:
        raise kind(f"{problem}: {error.strerror or error}") from error


class ApiError(KailabError):
    """A cluster refused a request. ``reason`` is the Kubernetes status reason (``NotFound``, ``Conflict`` ...).

    ``unanswered``: the answer was lost, so the server may have carried out the request."""

    reason = "InternalError"
    code = 500
    unanswered = False


class NotFound(ApiError):
    reason = "NotFound"
    code = 404


class AlreadyExists(ApiError):
    reason = "AlreadyExists"
    code = 409


class Conflict(ApiError):
    """The resourceVersion of the request is not the stored one."""

    reason = "Conflict"
    code = 409


class Invalid(ApiError):
    """The object does not pass validation. ``field`` names the invalid field."""

    reason = "Invalid"
    code = 422

    def __init__(self, message: str, field: str = "") -> None:
        self.field = field
        super().__init__(message)


class Gone(ApiError):
    """A watch can't resume from a resourceVersion that the server no longer keeps."""

    reason = "Expired"
    code = 410


class Unauthorized(ApiError):
    """The server does not accept the credentials: they are wrong or expired."""

    reason = "Unauthorized"
    code = 401


class Forbidden(ApiError):
    """The server refuses the request: the user lacks the right, or admission does not allow it."""

    reason = "Forbidden"
    code = 403


class Unavailable(ApiError):
    """The server could not be reached or was too busy until the timeout."""

    reason = "ServiceUnavailable"
    code = 503


class ConnectError(KailabError):
    """A cluster can't be used at all: its kubeconfig, server, credentials or required objects are missing."""


class ApplyWarning(UserWarning):
    """A warning of ``lab.apply`` in a test. pytest's option ``-W error::kailab.errors.ApplyWarning`` makes the test fail at it."""


class ConfigurationWarning(UserWarning):
    """A setting of a test's scheduler has no effect, or switches off more than its name says."""


class ExpectationFailed(AssertionError):
    """An expectation about a lab did not hold. The text names the expected and the observed state, and the reason."""

    def __init__(self, *args: object) -> None:
        # Test runners print the text without escaping it.
        super().__init__(*(escaped(arg) if isinstance(arg, str) else arg for arg in args))


class NothingThere(ExpectationFailed):
    """An expectation names an object that never existed in the lab: probably a mistyped name."""
