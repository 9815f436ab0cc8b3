"""The outbox and the inbox with psycopg 3: statements in your own transaction, on a connection or a cursor."""

from __future__ import annotations

from typing import Any

import psycopg

from .event import Event, first, insert

MARK = "%({})s"
# The number of rows of a statement is unknown in a pipeline until it is synchronised.
FIRST = (first(MARK) + " returning message_id").encode()

Connection = psycopg.Connection[Any] | psycopg.Cursor[Any]
AsyncConnection = psycopg.AsyncConnection[Any] | psycopg.AsyncCursor[Any]


def publish(connection: Connection, *events: Event) -> None:
    """Writes events. They are published once your transaction commits. Lock the rows of their aggregates first."""
    for event in events:
        row = event.row()
        connection.execute(insert(row, MARK).encode(), row)


def first_time(connection: Connection, consumer: str, message_id: str) -> bool:
    """Whether the consumer has not handled this message yet. Handle it in the same transaction."""
    values = {"consumer": consumer, "message_id": message_id}
    return connection.execute(FIRST, values).fetchone() is not None


async def publish_async(connection: AsyncConnection, *events: Event) -> None:
    """The same as `publish`."""
    for event in events:
        row = event.row()
        await connection.execute(insert(row, MARK).encode(), row)


async def first_time_async(connection: AsyncConnection, consumer: str, message_id: str) -> bool:
    """The same as `first_time`."""
    values = {"consumer": consumer, "message_id": message_id}
    return await (await connection.execute(FIRST, values)).fetchone() is not None
