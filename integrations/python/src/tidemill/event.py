"""Events of the outbox and messages of the inbox, as rows that you write in your own transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COLUMNS = ("aggregate_type", "aggregate_id", "event_type", "topic", "payload", "payload_bytes", "headers")


@dataclass(frozen=True)
class Event:
    """An event of an aggregate. `payload` is written as JSON; a `str` is JSON already, and kept byte for byte.

    Use `payload_bytes` for any other content. Without both, the event is a tombstone.
    """

    aggregate_type: str
    aggregate_id: str
    event_type: str
    topic: str
    payload: Any = None
    payload_bytes: bytes | None = None
    headers: Mapping[str, str] | None = None

    def row(self) -> dict[str, Any]:
        is_text = self.payload is None or isinstance(self.payload, str)
        payload = self.payload if is_text else json.dumps(self.payload, ensure_ascii=False, separators=(",", ":"))
        headers = json.dumps(dict(self.headers), ensure_ascii=False) if self.headers else None
        # A table without headers has its own default for them.
        row = {name: getattr(self, name) for name in COLUMNS} | {"payload": payload, "headers": headers}
        return {name: value for name, value in row.items() if value is not None}


def insert(row: Mapping[str, Any], mark: str) -> str:
    """The statement that writes an event. `mark` is how a driver writes a value with a name."""
    values = ", ".join(mark.format(name) for name in row)
    return f"insert into outbox_event ({', '.join(row)}) values ({values})"


def first(mark: str) -> str:
    """The statement that records a message, which affects one row if the message is new."""
    values = ", ".join(mark.format(name) for name in ("consumer", "message_id"))
    conflict = "on conflict (consumer, message_id) do nothing"
    return f"insert into tidemill_inbox (consumer, message_id) values ({values}) {conflict}"
