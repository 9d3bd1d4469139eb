"""Whether a server refuses the second of two puts under one name, asked before anything is committed to it.

A server that ignores `If-None-Match` lets the second overwrite the first: of two loaders that commit at once, one loses
its version, silently. Nothing but a try tells, and the client of the table looks what is there before it puts.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, build_opener
from uuid import uuid4

from disarray.errors import DestinationMisfitError, DestinationUnavailableError

if TYPE_CHECKING:
    from disarray.model.description.destination import DeltaTarget
    from disarray.sinks.destination_delta_store import DeltaStore

_TIMEOUT_SECONDS = 5.0
# Of this process; a server is seldom replaced by a worse one, and a worker is started again now and then.
_passed: set[DeltaTarget] = set()


def refuse_careless_server(store: DeltaStore) -> None:
    """Refuse a bucket whose server lets two writers commit the same version; asked once by each process.

    A server that is away or refuses the keys is left to the client of the table, which tells of it. One that took the
    first put and says nothing to the second may be of either kind: nothing is loaded.
    """
    target = store.target
    if target.access is None or target in _passed:
        return
    # Hidden from readers of the table by its underscore.
    key = f"{target.path.removeprefix('s3://')}/_disarray_probe_{uuid4()}"
    try:
        first = _request(store, "PUT", key)
    except (OSError, http.client.HTTPException):
        return
    if first not in (http.client.OK, http.client.NOT_IMPLEMENTED):
        return
    second = _second_answer(store, key) if first == http.client.OK else first
    if second in (http.client.OK, http.client.NOT_IMPLEMENTED):
        raise DestinationMisfitError(
            f"{target.shown} is on a server that ignores If-None-Match: of two puts under one name the second replaced "
            "the first, so that of two loaders that commit at once one would lose its rows. Nothing was loaded. Use a "
            "server that honours conditional puts, as AWS S3 and SeaweedFS do"
        )
    if second not in (http.client.PRECONDITION_FAILED, http.client.CONFLICT):
        raise DestinationUnavailableError(
            f"{target.shown} did not say whether it honours conditional puts: to the second of two under one name its "
            f"answer was {second or 'none'}. Nothing was loaded. What is due waits"
        )
    _passed.add(target)


def _second_answer(store: DeltaStore, key: str) -> int | None:
    """What is said to another put under a name that is there; None where nothing is."""
    second = None
    with suppress(OSError, http.client.HTTPException):
        second = _request(store, "PUT", key)
        _request(store, "DELETE", key)
    return second


def _request(store: DeltaStore, method: str, key: str) -> int:
    """A request without a body, signed by version 4 of AWS; the status of the answer."""
    options, url = store.options, urlsplit(store.options["aws_endpoint_url"])
    path = quote(f"/{key}", safe="/-_.~")
    now = datetime.now(UTC)
    day, scope = f"{now:%Y%m%d}", f"{now:%Y%m%d}/{options['aws_region']}/s3/aws4_request"
    nothing = hashlib.sha256(b"").hexdigest()
    headers = {
        "host": url.netloc,
        **({"if-none-match": "*"} if method == "PUT" else {}),
        "x-amz-content-sha256": nothing,
        "x-amz-date": f"{now:%Y%m%dT%H%M%SZ}",
    }
    signed = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    asked = hashlib.sha256(f"{method}\n{path}\n\n{lines}\n{signed}\n{nothing}".encode()).hexdigest()
    secret = f"AWS4{options['aws_secret_access_key']}".encode()
    for part in (day, options["aws_region"], "s3", "aws4_request"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{scope}\n{asked}"
    signature = hmac.digest(secret, text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={options['aws_access_key_id']}/{scope}, SignedHeaders={signed}, "
        f"Signature={signature}"
    )
    asking = Request(f"{url.scheme}://{url.netloc}{path}", data=b"", headers=headers, method=method)  # noqa: S310 - http or https, by the reader of destinations
    try:
        # Through whatever proxies the environment names, as the client of the table.
        with build_opener().open(asking, timeout=_TIMEOUT_SECONDS) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code
