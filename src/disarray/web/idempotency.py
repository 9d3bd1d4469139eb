"""A POST that is sent twice acts once: its answer is stored in the transaction of the action."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from disarray.control import requests
from disarray.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.web.route import AnyRoute, Call

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
PATTERN = r"^[!-~]{1,128}$"


def act_once(
    call: Call, route: AnyRoute, asked: Any, *, key: str | None, act: Callable[[], bytes]
) -> tuple[bytes, bool]:
    """The answer to a POST, and whether it is that of an earlier one.

    A refusal is not stored: nothing was done, and the same request may be in order later.
    """
    if key is not None and re.search(PATTERN.replace("$", r"\Z"), key) is None:
        raise Problem(400, "not as documented", f"{HEADER} has to match {PATTERN}. Nothing was done.")
    with call.connection.transaction():
        if key is None:
            return act(), False
        request = requests.Request(call.who, f"{route.method} {route.path}", key)
        # Spaces and the order of names make no other request of it.
        content = json.dumps(asdict(asked), sort_keys=True, default=str).encode()
        stored = requests.begin_request(
            call.connection, request, request_hash=hashlib.sha256(content).digest()
        )
        if stored is not None:
            return stored.encode(), True
        answer = act()
        requests.keep_answer(
            call.connection, request, request_hash=hashlib.sha256(content).digest(), answer=answer.decode()
        )
        return answer, False
