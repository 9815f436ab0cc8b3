"""The outbox and the inbox with SQLAlchemy 2: statements in your own transaction, on a session or a connection."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import Connection, CursorResult, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from .event import Event, first, insert

MARK = ":{}"


def publish(session: Session | Connection, *events: Event) -> None:
    """Writes events. They are published once your transaction commits. Lock the rows of their aggregates first."""
    if isinstance(session, Session):
        # Changes of your objects come first, so that they lock the aggregate.
        session.flush()
    for event in events:
        row = event.row()
        session.execute(text(insert(row, MARK)), row)


def first_time(session: Session | Connection, consumer: str, message_id: str) -> bool:
    """Whether the consumer has not handled this message yet. Handle it in the same transaction."""
    values = {"consumer": consumer, "message_id": message_id}
    return cast("CursorResult[Any]", session.execute(text(first(MARK)), values)).rowcount == 1


async def publish_async(session: AsyncSession | AsyncConnection, *events: Event) -> None:
    """The same as `publish`."""
    if isinstance(session, AsyncSession):
        await session.flush()
    for event in events:
        row = event.row()
        await session.execute(text(insert(row, MARK)), row)


async def first_time_async(session: AsyncSession | AsyncConnection, consumer: str, message_id: str) -> bool:
    """The same as `first_time`."""
    values = {"consumer": consumer, "message_id": message_id}
    return cast("CursorResult[Any]", await session.execute(text(first(MARK)), values)).rowcount == 1
