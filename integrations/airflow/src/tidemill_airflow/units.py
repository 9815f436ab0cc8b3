"""Units of a pool for operators and tasks."""

from __future__ import annotations

import signal
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any, NoReturn

from tidemill import Ask, Client, Grant, Holder, Units, UnitsRequest

from .compat import AirflowTaskTerminated, Context, get_current_context
from .hooks import TidemillHook

HEARTBEAT_SECONDS = 20

# How many blocks each try of this process has begun, by pool.
_blocks: Counter[tuple[Any, ...]] = Counter()


def request_of(
    context: Context,
    pool: str,
    units: Any = None,
    min_units: Any = None,
    hint: str | None = None,
    table: str | None = None,
    priority: str = "normal",
    *,
    heartbeat: int | None,
    block: int = 1,
) -> UnitsRequest:
    """The request of a task instance. Each try is one attempt, however often its parts run."""
    ti: Any = context["ti"]
    # A further block of the same task is a holder of its own, or it would get the lease of the block before it.
    task = ti.task_id if block == 1 else f"{ti.task_id}#{block}"
    holder = Holder(ti.dag_id, ti.run_id, task, -1 if ti.map_index is None else ti.map_index)
    # Templates render to text, and to an empty one where there is nothing.
    ask = Ask(pool, int(units) if units else None, int(min_units) if min_units else None)
    more: dict[str, Any] = {"hint": hint or None, "table": table or None, "priority": priority, "heartbeat": heartbeat}
    key = uuid.uuid5(uuid.NAMESPACE_OID, repr((holder, ti.try_number, ask, more)))
    return UnitsRequest((ask,), holder, key=str(key), **more)


@contextmanager
def hold(client: Client, request: UnitsRequest, wait: timedelta | None, grant: Grant | None = None) -> Iterator[Units]:
    """Units that are released however the task ends, even if Airflow kills it."""
    holding = Units(client, request, wait=wait, survives_kill=True, grant=grant)
    with _unwind_at_sigterm(), holding as units:
        yield units


@contextmanager
def tidemill_units(
    pool: str,
    units: int | None = None,
    *,
    min_units: int | None = None,
    hint: str | None = None,
    table: str | None = None,
    priority: str = "normal",
    wait: timedelta | None = None,
    tidemill_conn_id: str = TidemillHook.default_conn_name,
) -> Iterator[Units]:
    """Units for a part of a running task. While it waits, it keeps its worker slot; `@task.tidemill` does not."""
    context = get_current_context()
    asked = (pool, units, min_units, hint, table, priority)
    request = request_of(context, *asked, heartbeat=HEARTBEAT_SECONDS, block=_next_block(context, pool))
    with TidemillHook(tidemill_conn_id).get_conn() as client, hold(client, request, wait) as held:
        yield held


def _next_block(context: Context, pool: str) -> int:
    """The number of a block in its try. It is the same in a retry, which so takes over what a lost try held."""
    ti: Any = context["ti"]
    place = (ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number, pool)
    _blocks[place] += 1
    return _blocks[place]


@contextmanager
def _unwind_at_sigterm() -> Iterator[None]:
    """Airflow 3 tells only the operator that the task must end. Its code has to end too, before its units do."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if callable(before):
            before(number, frame)
        raise AirflowTaskTerminated("Airflow ended the task with SIGTERM")

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
