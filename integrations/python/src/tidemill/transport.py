"""What both clients need to know of HTTP."""

from __future__ import annotations

import os
from typing import Any

import httpx

from .calls import Call, Reply

DEFAULT_URL = "http://127.0.0.1:7790"
# The server ends a request after 30 seconds; a poll adds its own time.
USUAL_TIME = 35.0
CONNECT_TIME = 10.0
# How long a call is repeated while the server is away.
RETRY_FOR = 120.0


def settings(url: str | None, token: str | None) -> dict[str, Any]:
    url = url or os.environ.get("TIDEMILL_CLIENT_URL") or DEFAULT_URL
    token = token or os.environ.get("TIDEMILL_CLIENT_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return {"base_url": url.rstrip("/"), "headers": headers}


def arguments(call: Call) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "json": call.body,
        "params": call.query,
        "headers": call.headers,
        "timeout": httpx.Timeout(USUAL_TIME + call.waits, connect=CONNECT_TIME),
    }


def reply(response: httpx.Response) -> Reply:
    try:
        body = response.json() if response.content else None
    except ValueError:
        body = None
    # The other form of the header, a date, is not one that Tidemill sends.
    after = response.headers.get("retry-after", "")
    return Reply(response.status_code, body, float(after) if after.isdigit() else 0.0)


def no_answer(error: httpx.TransportError) -> Reply:
    return Reply(0, reason=f"{error.request.url}: {str(error) or type(error).__name__}")
