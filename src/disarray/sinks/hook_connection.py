"""Connections of hooks: only to addresses that are allowed, and never for longer than a hook may take.

The address that was looked at is the one that is connected to: a name that leads elsewhere a moment later changes
nothing. A server that sends a byte now and then is cut off like one that says nothing.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Self

from disarray.errors import AddressRefusedError, ConfigError
from disarray.model.description.hook_reader import refuse_unlisted
from disarray.model.description.spec_table import MisfitError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from disarray.model.description.hook import HookKind
    from disarray.model.outgoing_addresses import AllowList


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """What sending a message may do: where to, for how long, and whether it may still begin."""

    allow: AllowList
    timeout_seconds: float
    # Called last before anything leaves: raises where the claim may be somebody else's by now.
    before_sending: Callable[[], None] = lambda: None


class Deadline:
    """Cuts a connection when its time is over, whatever it is doing."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds
        self._timer: threading.Timer | None = None
        self._copy: socket.socket | None = None
        self._lock = threading.Lock()
        self.is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            if self._copy is not None:
                self._copy.close()
                self._copy = None

    @property
    def seconds_left(self) -> float:
        return max(0.01, self._ends_at - time.monotonic())

    def watch(self, connection: socket.socket) -> None:
        """Cut this connection when the time is over."""
        # A copy of the descriptor: the connection may be wrapped, or closed, while the timer looks at it.
        self._copy = socket.socket(fileno=os.dup(connection.fileno()))
        self._timer = threading.Timer(self.seconds_left, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def _cut(self) -> None:
        with self._lock:
            self.is_over = True
            if self._copy is not None:
                with suppress(OSError):
                    self._copy.shutdown(socket.SHUT_RDWR)


def open_connection(
    host: str, port: int, kind: HookKind, *, allow: AllowList, deadline: Deadline
) -> socket.socket:
    """A connection to an allowed address of a host; `AddressRefusedError` where there is none."""
    try:
        refuse_unlisted(host, port, kind, allow)
    except MisfitError as misfit:
        raise AddressRefusedError(
            f"{host}:{port} is not allowed; {misfit.hint}. Nothing was sent"
        ) from misfit
    addresses = _resolve(host, port)
    for address in addresses:
        refusal = allow.refusal(ip_address(address.partition("%")[0]), host=host, port=port)
        if refusal is not None:
            raise AddressRefusedError(f"{refusal}. Nothing was sent")
    failure: OSError | None = None
    for address in addresses:
        try:
            opened = socket.create_connection((address, port), timeout=deadline.seconds_left)
        except OSError as error:
            failure = error
            continue
        deadline.watch(opened)
        return opened
    raise failure or OSError(f"{host} has no address")


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """What is trusted: the certificates of the system, and those of a file."""
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            raise ConfigError(
                f"the certificates in {ca_file} cannot be read: {error.strerror or error}"
            ) from error
    return context


def _resolve(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host} is no name of a host") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
