"""Webhooks: a POST of JSON with an idempotency key, signed where the receiver shares a secret."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from disarray import __version__
from disarray.errors import AddressRefusedError
from disarray.model.description.hook import HookKind
from disarray.model.description.hook_reader import check_url
from disarray.model.description.secret import SecretSource
from disarray.model.description.spec_table import MisfitError
from disarray.model.side_effect import EffectOutcome
from disarray.secret import read_secret
from disarray.sinks.hook_connection import Deadline, open_connection, tls_context

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from disarray.model.description.hook import Webhook
    from disarray.model.outgoing_addresses import AllowList
    from disarray.sinks.hook_connection import Outgoing
    from disarray.sinks.hook_message import HookMessage

KEY_HEADER = "Idempotency-Key"
SIGNATURE_HEADER = "Disarray-Signature"
CAUSE_HEADER = "Disarray-Cause"
# As much of an answer as is kept; the rest is not even read.
KEPT_BYTES = 1024
_REFUSED_FOR_NOW = (408, 425, 429)


def send_webhook(target: Webhook, message: HookMessage, outgoing: Outgoing) -> EffectOutcome:
    """POST a message; a status from 200 to 299 means that it was taken."""
    body = message.json_bytes()
    headers = request_headers(target, message, body)
    # Read once: a secret that is changed meanwhile must not send the path of one url to the host of another.
    parts = urlsplit(url_of(target, outgoing.allow))
    with Deadline(outgoing.timeout_seconds) as deadline:
        try:
            connection = _connect(parts, target, outgoing, deadline)
            try:
                outgoing.before_sending()
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                if deadline.is_over:
                    # Cut off in the middle of its headers, an answer looks whole.
                    raise TimeoutError
                return _outcome(response)
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            if deadline.is_over:
                reason = f"no answer within {outgoing.timeout_seconds:g} s"
            else:
                reason = f"{type(error).__name__}: {error}"
            return EffectOutcome(reason=reason, is_away=True)


def request_headers(target: Webhook, message: HookMessage, body: bytes) -> dict[str, str]:
    """What goes along with a body: its key, its cause, and a signature over the time and the body."""
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": f"disarray/{__version__}",
        KEY_HEADER: message.key,
        CAUSE_HEADER: message.cause,
    }
    if target.secret is not None:
        headers[SIGNATURE_HEADER] = signature_of(read_secret(target.secret), int(time.time()), body)
    return headers


def signature_of(secret: str, at: int, body: bytes) -> str:
    """`t=SECONDS,v1=HEX`: HMAC-SHA256 of "SECONDS." and the body; the time keeps a copy from being sent in later."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def url_of(target: Webhook, allow: AllowList) -> str:
    """The url, wherever it is kept."""
    if not isinstance(target.url, SecretSource):
        return target.url
    try:
        return check_url(read_secret(target.url), allow)
    except MisfitError as misfit:
        hint = f"; {misfit.hint}" if misfit.hint else ""
        raise AddressRefusedError(
            f"the url in {target.url} is not {misfit.expected}{hint}. Nothing was sent"
        ) from None


def _connect(
    parts: SplitResult, target: Webhook, outgoing: Outgoing, deadline: Deadline
) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    is_secure = parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    opened = open_connection(host, port, HookKind.WEBHOOK, allow=outgoing.allow, deadline=deadline)
    try:
        connection: http.client.HTTPConnection
        if is_secure:
            context = tls_context(target.ca_file)
            connection = http.client.HTTPSConnection(host, port, context=context)
            connection.sock = context.wrap_socket(opened, server_hostname=host)
        else:
            connection = http.client.HTTPConnection(host, port)
            connection.sock = opened
    except BaseException:
        opened.close()
        raise
    return connection


def _outcome(response: http.client.HTTPResponse) -> EffectOutcome:
    try:
        answer = response.read(KEPT_BYTES)
    except (OSError, http.client.HTTPException):
        # The status says what became of the message; whatever else it wanted to say, it did not.
        answer = b""
    status = f"{response.status} {response.reason}".strip()
    text = answer.decode("utf-8", errors="replace").replace("\0", "\ufffd")
    reason = None
    if 300 <= response.status < 400:
        where = response.getheader("Location", "nowhere")[:200]
        reason = f"answered {status}, a redirect to {where}, which is not followed"
    elif not 200 <= response.status < 300:
        reason = f"answered {status}"
    is_away = response.status >= 500 or response.status in _REFUSED_FOR_NOW
    return EffectOutcome(reason=reason, status=status, answer=text, is_away=is_away)
