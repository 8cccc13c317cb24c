"""Objects that can't be read: each is left out by itself, and the lab goes on.

Admission refuses malformed objects. Some get past it (written by a status patch, or stored by a real API server with
looser checks) and make the code that reads them fail. That code leaves the object out, with a Warning event on it that
says what is wrong, as a controller of Kubernetes would log it. With ``KAILAB_STRICT`` set, as in kailab's own tests,
the failure is raised instead: there it is a fault of kailab.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from kailab.cluster.protocol import EventSeverity, Object
from kailab.errors import InputError, KailabError
from kailab.model.objects import uid_of

STRICT = "KAILAB_STRICT"
REASON = "Unreadable"


class EventSink(Protocol):
    """``Cluster.event``."""

    def __call__(self, involved: Object, type: EventSeverity, reason: str, message: str, component: str) -> None: ...


class UnreadableObjects:
    """The objects that one component leaves out."""

    def __init__(self, event: EventSink, component: str) -> None:
        self._event = event
        self._component = component
        self._reported: dict[str, str] = {}  # by uid

    def note(self, obj: Object, error: Exception) -> None:
        """Record an object whose handling failed; call it where the failure was caught. Errors that are not the
        object's fault (a refusal, a lab that does not settle) are raised again.
        """
        # An InputError comes from reading a quantity or a time, so it is the object's fault.
        if (isinstance(error, KailabError) and not isinstance(error, InputError)) or os.environ.get(STRICT):
            raise error
        message = f"left out, because it does not have the form of its kind ({type(error).__name__}: {error!s:.200})"
        uid = uid_of(obj)
        # One event for each fault of an object, although each change of the object meets the fault again.
        if self._reported.get(uid) != message:
            self._reported[uid] = message
            self._event(obj, "Warning", REASON, message, self._component)

    def try_handling(self, obj: Object, act: Callable[..., Any], *arguments: Any) -> bool:
        """Call ``act``; False if that failed and the object is left out."""
        try:
            act(*arguments)
        except Exception as error:
            self.note(obj, error)
            return False
        return True
