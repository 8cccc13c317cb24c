"""Whether the API server still takes the credentials of this process.

An account that was deleted and made anew, or a token that nobody renews: each request is refused from then on, while watches that are
open go on. A process that stayed would do nothing, and look as if it had nothing to do. One that ends is started again by whoever
supervises it, with the credentials of that moment.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kailab.errors import ConnectError, Unauthorized

if TYPE_CHECKING:
    from kailab.cluster.kubernetes.apiclient.transport import Transport

PATIENCE_SECONDS = 60.0
"""Longer than a token that was renewed in its file goes unread."""


class Credentials:
    """Of the connections that it was told of. ``patience``: seconds for which all may be refused."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._transports: list[Transport] = []

    def watch(self, transport: Transport) -> None:
        self._transports.append(transport)

    def check(self) -> None:
        """Raises ConnectError once a server has refused them for as long as that, and does so again when asked."""
        for transport in self._transports:
            since = transport.answers.refused_since
            if since is None or (refused := time.monotonic() - since) < self._patience:
                continue
            # A single answer, long ago, may be all that there was. Any other answer begins the count anew.
            try:
                transport.check(patience=0.0)
            except ConnectError as error:
                if isinstance(error.__cause__, Unauthorized):
                    told = f"{error} It has refused them for {refused:.0f} s: this process ends, to be started anew"
                    raise ConnectError(told) from error
