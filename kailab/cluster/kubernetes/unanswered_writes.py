"""Objects of which we are in doubt: a write was sent, and no answer said what became of it.

The server is asked until it says what is true, in the background. Until then a pod counts as bound where it was sent to, and
whoever wrote anything else counts both what was and what may be: a GPU that may be taken is not given to another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import tenacity

from kailab.cluster.kubernetes.apiclient.refusals import refusal
from kailab.cluster.kubernetes.apiclient.requests import body_of
from kailab.cluster.kubernetes.apiclient.resources import Resource
from kailab.cluster.kubernetes.apiclient.transport import Transport
from kailab.cluster.kubernetes.informer import Inquiry, News
from kailab.cluster.protocol import Object
from kailab.errors import ApiError

_PATIENCE_SECONDS = 5.0
_LONGEST_PAUSE = 10.0
_UNDER_WAY_SECONDS = 1.0
"""A server whose client has hung up ends what it did for it, at once or not at all."""


class UnansweredWrites:
    """``tell`` takes what the server says, from the loop's thread."""

    def __init__(self, transport: Transport, tell: Callable[[News], None]) -> None:
        self._transport = transport
        self._tell = tell
        self._asked = 0

    def ask(self, resource: Resource, namespace: str, name: str, uid: str, under_way: bool) -> Inquiry:
        """Find out what is true of an object. ``under_way``: a request that nobody waits for any more may still be at work.
        Returns the question; the news that answers it names it."""
        self._asked += 1
        doubt = Inquiry((namespace, name), uid, self._asked)
        self._transport.start(self._find_out(resource, doubt, under_way))
        return doubt

    async def _find_out(self, resource: Resource, doubt: Inquiry, under_way: bool) -> None:
        if under_way:
            await asyncio.sleep(_UNDER_WAY_SECONDS)
        # It has no end: until there is an answer, the pod or the device stays counted on the safe side.
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(ApiError),
            wait=tenacity.wait_exponential(0.2, _LONGEST_PAUSE) + tenacity.wait_random(0, 0.2),
        )
        found: Object = await retrying(self._get, resource, *doubt.key)
        self._tell(News(resource.key, "LOOKED_UP", found, [], doubt=doubt))

    async def _get(self, resource: Resource, namespace: str, name: str) -> Object:
        path = resource.path(namespace or None, name)
        answer = await self._transport.request("GET", path, patience=_PATIENCE_SECONDS)
        # Nothing of that name is an answer, too: the write was not carried out, or what it made has gone.
        if answer.code == 404:
            return {}
        if answer.code != 200:
            raise refusal(answer.code, answer.body, f"GET {path}")
        return body_of(answer)
