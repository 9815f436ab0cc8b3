"""How the API is called, without any input or output: both clients drive the same plans.

A plan is a generator. It yields a call or a pause, gets the reply, and returns the result.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .errors import ApiError, LeaseLost, Unreachable

LEASE_GONE = "TM1207"

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    # The same in each repetition: the server then does the work once, even if its answer was lost.
    key: str | None = None
    # How long the server may take beyond the usual time.
    waits: float = 0.0

    @property
    def headers(self) -> dict[str, str]:
        return {"Idempotency-Key": self.key} if self.key else {}


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Reply:
    """What the server answered; without a status, why there was no answer."""

    status: int
    body: Any = None
    retry_after: float = 0.0
    reason: str = ""

    @property
    def is_temporary(self) -> bool:
        return self.status in (0, 429, 502, 503, 504)


T = TypeVar("T")
Plan = Generator[Call | Pause, Reply, T]


def send(call: Call, retry_for: float) -> Plan[Any]:
    """Repeats a call while it fails for a reason that passes by itself, and returns the body of the answer."""
    give_up, pause = time.monotonic() + retry_for, FIRST_PAUSE
    while True:
        reply = yield call
        if 0 < reply.status < 400:
            return reply.body
        if not reply.is_temporary or time.monotonic() >= give_up:
            raise error_of(call, reply)
        yield Pause(max(reply.retry_after, pause * random.uniform(0.5, 1.0)))
        pause = min(pause * 2, LONGEST_PAUSE)


def error_of(call: Call, reply: Reply) -> ApiError | Unreachable:
    if reply.status == 0:
        return Unreachable(reply.reason)
    body = reply.body if isinstance(reply.body, dict) else {}
    code = str(body.get("code", ""))
    kind = LeaseLost if code == LEASE_GONE else ApiError
    return kind(
        str(body.get("detail", f"{call.method} {call.path} was answered with {reply.status}")),
        code=code,
        fix=str(body.get("remedy", "Check that the address is that of a Tidemill server")),
        status=reply.status,
        request_id=body.get("request_id"),
    )
