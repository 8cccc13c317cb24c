"""One scheduler process: connections, election, health server, signals, checks of credentials, and an orderly shutdown."""

from __future__ import annotations

import logging
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType

import tenacity

from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.kubernetes.apiclient.connection import ACCOUNT
from kailab.cluster.kubernetes.apiclient.transport import Transport
from kailab.cluster.protocol import Cluster
from kailab.errors import ConnectError, InputError, Unauthorized
from kailab.scheduler.observers import Observer
from kailab.scheduler.service.election import Election, ElectionThread, Leadership, LeaseTerms, NoElection
from kailab.scheduler.service.health import HealthServer, LoopHealth
from kailab.scheduler.service.metrics import SchedulerMetrics
from kailab.scheduler.service.service_loop import SLICE_SECONDS, SchedulerService, ServiceSettings

PATIENCE_SECONDS = 60.0
"""Longer than it takes until a renewed token file is read."""


class CredentialCheck:
    """Checks that the API server still accepts the credentials of the watched connections. ``patience``: seconds of refusal to tolerate.

    With a deleted account or an expired token every request is refused, while open watches continue. The process would do nothing and seem
    idle. It ends instead, so that its supervisor starts it again with current credentials.
    """

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._transports: list[Transport] = []

    def watch(self, transport: Transport) -> None:
        self._transports.append(transport)

    def check(self) -> None:
        """Raises ConnectError if a server has refused the credentials for ``patience`` seconds and refuses them again now."""
        for transport in self._transports:
            since = transport.answers.refused_since
            if since is None or (refused := time.monotonic() - since) < self._patience:
                continue
            log.debug("the server has refused the credentials for %.0f s; asking once more", refused)
            # Ask again: there may have been only one refusal, long ago. Any other answer resets the count.
            try:
                transport.check(patience=0.0)
            except ConnectError as error:
                if isinstance(error.__cause__, Unauthorized):
                    message = f"{error} It has refused them for {refused:.0f} s: this process ends so that it can be started again"
                    raise ConnectError(message) from error


log = logging.getLogger("kailab.scheduler")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StoppedBySignal(Exception):
    """A signal arrived before the loop started."""


def read_connection(kubeconfig: Path | None, context: str | None) -> Connection:
    """The connection of a kubeconfig, or of a pod's service account. Raises ConnectError or InputError."""
    from kailab.cluster.kubernetes import Connection

    if kubeconfig is not None:
        return Connection.from_kubeconfig(kubeconfig, context)
    if context is not None:
        raise InputError("--context needs --kubeconfig")
    if not ACCOUNT.exists():
        raise ConnectError("no kubeconfig was given, and this is no pod with a service account; give --kubeconfig FILE")
    return Connection.in_cluster()


def default_identity() -> str:
    """A unique identity of this process."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class ServiceProcess:
    """One scheduler process. ``run`` returns after a signal.

    ``lease``: (namespace, name) of the Lease of the candidates; None: no election.
    """

    def __init__(
        self,
        connection: Connection,
        settings: ServiceSettings,
        lease: tuple[str, str] | None,
        terms: LeaseTerms | None = None,
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        observers: Callable[[Cluster], Iterable[Observer]] = lambda cluster: (),
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._lease = lease
        self._terms = (terms or LeaseTerms()).check()
        self._address = address
        self._port = port
        self._observers = observers
        self._ending = False
        self._service: SchedulerService | None = None

    def run(self) -> None:
        """Raises InputError if it can't listen, and ConnectError if the server refuses the credentials."""
        loop_health, metrics = LoopHealth(), SchedulerMetrics()
        # First, so that a signal during the first connection also ends the process in order.
        before = {number: signal.signal(number, self._signalled) for number in _SIGNALS}
        with ExitStack() as ending:
            for number, handler in before.items():
                ending.callback(signal.signal, number, handler)
            health = HealthServer(self._address, self._port, loop_health, metrics.text)
            ending.callback(health.close)
            log.info("health and metrics at %s", health.url)
            with suppress(StoppedBySignal):
                self._serve(loop_health, metrics, ending)
        log.info("stopped")

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._ending = True
        if self._service is not None:
            self._service.stop()

    def _serve(self, loop_health: LoopHealth, metrics: SchedulerMetrics, ending: ExitStack) -> None:
        """Run the loop. The stack ends the loop first, then its writes in the background, then the lease."""
        leadership: Leadership = NoElection()
        thread: ElectionThread | None = None
        credentials = CredentialCheck()
        if self._lease is not None:
            # An own connection: the lease must be renewed while a thousand bindings are under way.
            electing = self._connect(loop_health, patience=self._terms.retry_period)
            ending.callback(electing.close)
            credentials.watch(electing.transport)
            election = Election(electing, self._settings.identity, *self._lease, self._terms)
            thread = ElectionThread(election, lambda message: log.warning("%s", message))
            ending.callback(thread.end)
            leadership = election
        cluster = self._connect(loop_health)
        # The guarded cluster checks the lease once per batch, the transport before each request.
        cluster.transport.may_write = lambda: leadership.leading
        ending.callback(cluster.close)
        credentials.watch(cluster.transport)
        service = self._service = SchedulerService(
            cluster,
            self._settings,
            leadership,
            metrics=metrics,
            health=loop_health,
            observers=self._observers,
            check=credentials.check,
        )
        if self._ending:
            raise StoppedBySignal
        if thread is not None:
            # Last, so that the lease is never held by a process that is not ready.
            thread.start()
        service.run()

    def _connect(self, loop_health: LoopHealth, patience: float | None = None) -> KubernetesCluster:
        """Connect to the server; retry until it answers."""

        def pause(seconds: float) -> None:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                if self._ending:
                    raise StoppedBySignal
                # Waiting for a server is no reason to restart the process.
                loop_health.turned()
                time.sleep(min(SLICE_SECONDS, max(0.0, end - time.monotonic())))

        def report(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome is not None else None
            loop_health.trouble = str(error)
            log.warning("%s; trying again", error)

        def transient(error: BaseException) -> bool:
            # Refused credentials stay refused: the process ends with that error.
            return isinstance(error, ConnectError) and not isinstance(error.__cause__, Unauthorized)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(transient),
            wait=tenacity.wait_exponential(0.5, 15.0) + tenacity.wait_random(0, 0.5),
            before_sleep=report,
            sleep=pause,
        )
        if self._ending:
            raise StoppedBySignal
        if patience is None:
            return retrying(KubernetesCluster, self._connection)
        return retrying(KubernetesCluster, self._connection, patience=patience)
