"""Writes events and remembers messages in transactions of psycopg and SQLAlchemy.

    python events.py URL

The database at URL has Tidemill's schema. Prints one JSON object: the events and messages that each way left behind.
"""

import asyncio
import json
import sys

import psycopg
import sqlalchemy
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from tidemill import Event
from tidemill import psycopg as by_psycopg
from tidemill import sqlalchemy as by_sqlalchemy

URL = sys.argv[1]
ENGINE_URL = URL.replace("postgresql://", "postgresql+psycopg://").replace("postgres://", "postgresql+psycopg://")
INSERT = "insert into python_orders (way) values (%s)"


class Planted(Exception):
    pass


def event(way):
    return Event("order", way, "order.paid", "orders", {"cents": 500, "note": "한글"}, headers={"trace": "7d1f"})


def rest(way):
    """Bytes, a tombstone, and JSON that is kept as it was written."""
    names = ("order", way, "order.kept", "orders")
    return Event(*names, payload_bytes=b"\x00\xff"), Event(*names), Event(*names, '{"a":  1}')


def sync_psycopg(way, fails, message):
    with psycopg.connect(URL) as connection:
        if by_psycopg.first_time(connection, way, message):
            connection.execute(INSERT, (way,))
            by_psycopg.publish(connection, event(way), *rest(way))
        if fails:
            raise Planted


def sync_session(way, fails, message):
    with Session(sqlalchemy.create_engine(ENGINE_URL)) as session, session.begin():
        if by_sqlalchemy.first_time(session, way, message):
            session.execute(text("insert into python_orders (way) values (:way)"), {"way": way})
            by_sqlalchemy.publish(session, event(way), *rest(way))
        if fails:
            raise Planted


async def async_psycopg(way, fails, message):
    async with await psycopg.AsyncConnection.connect(URL) as connection:
        if await by_psycopg.first_time_async(connection, way, message):
            await connection.execute(INSERT, (way,))
            await by_psycopg.publish_async(connection, event(way), *rest(way))
        if fails:
            raise Planted


async def async_session(way, fails, message):
    engine = create_async_engine(ENGINE_URL)
    async with AsyncSession(engine) as session, session.begin():
        if await by_sqlalchemy.first_time_async(session, way, message):
            await session.execute(text("insert into python_orders (way) values (:way)"), {"way": way})
            await by_sqlalchemy.publish_async(session, event(way), *rest(way))
        if fails:
            raise Planted


with psycopg.connect(URL) as connection:
    connection.execute("create table python_orders (way text not null)")
ways = {
    "psycopg": sync_psycopg,
    "sqlalchemy": sync_session,
    "psycopg_async": lambda *call: asyncio.run(async_psycopg(*call)),
    "sqlalchemy_async": lambda *call: asyncio.run(async_session(*call)),
}
told = {}
for way, handle in ways.items():
    for fails, message in ((True, "1"), (False, "1"), (False, "1"), (False, "2"), (True, "3")):
        try:
            handle(way, fails, message)
        except Planted:
            pass
    with psycopg.connect(URL) as connection:
        columns = "event_type, topic, payload, encode(payload_bytes, 'hex'), headers"
        found = f"select {columns} from outbox_event where aggregate_id = %s order by id"
        orders = "select count(*) from python_orders where way = %s"
        seen = "select message_id from tidemill_inbox where consumer = %s order by message_id"
        told[way] = {
            "events": [list(row) for row in connection.execute(found, (way,))],
            "orders": connection.execute(orders, (way,)).fetchone()[0],
            "seen": [row[0] for row in connection.execute(seen, (way,))],
        }
# In a pipeline, nothing is known of a statement until somebody asks for its rows.
with psycopg.connect(URL) as connection, connection.pipeline():
    told["pipeline"] = [by_psycopg.first_time(connection, "pipeline", "1") for _ in range(2)]
print(json.dumps(told))
