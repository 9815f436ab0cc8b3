"""What waits in the triggerer, so that no worker slot is used while it waits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async
from tidemill import ApiError, Execution, Place, TidemillError, UnitsRequest

from .compat import IS_AIRFLOW_3
from .hooks import TidemillHook

# What Airflow gives a trigger to clean up.
PATIENCE_AT_KILL = 20.0

log = logging.getLogger(__name__)


class TidemillTrigger(BaseTrigger):
    """Waits for one event, and ends the work outside if a person ends the task meanwhile."""

    async def event(self) -> dict[str, Any]:
        raise NotImplementedError

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            event = await self.event()
        except TidemillError as error:
            event = {"error": {"message": error.message, "code": error.code, "fix": error.fix}}
        except asyncio.CancelledError:
            # Airflow 3.3 calls `on_kill` itself. A triggerer that ends cancels its triggers as well.
            if not IS_AIRFLOW_3:
                await self._end_if_task_ended()
            raise
        yield TriggerEvent(event)

    async def _end_if_task_ended(self) -> None:
        """An error must not replace the cancellation, which Airflow waits for."""
        try:
            if await self._is_task_ended():
                await asyncio.wait_for(self.on_kill(), PATIENCE_AT_KILL)
        except Exception:
            log.exception("what the task waits for could not be ended")

    async def _is_task_ended(self) -> bool:
        ti: Any = self.task_instance

        def state() -> Any:
            from airflow.models.taskinstance import TaskInstance
            from airflow.utils.session import create_session

            with create_session() as session:
                key = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id, "map_index": ti.map_index}
                return session.query(TaskInstance.state).filter_by(**key).scalar()

        return ti is not None and await sync_to_async(state)() != "deferred"


class TidemillUnitsTrigger(TidemillTrigger):
    """Waits in the queue of a pool until units are set aside. The event has what the task needs to claim them."""

    def __init__(
        self, tidemill_conn_id: str, request: dict[str, Any], place: dict[str, Any], give_up_at: float | None
    ) -> None:
        super().__init__()
        self.tidemill_conn_id, self.request = tidemill_conn_id, request
        self.place, self.give_up_at = place, give_up_at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("tidemill_conn_id", "request", "place", "give_up_at")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    def _note(self, place: Place) -> None:
        self.place = vars(place)

    async def event(self) -> dict[str, Any]:
        wait = None if self.give_up_at is None else timedelta(seconds=max(0.0, self.give_up_at - time.time()))
        async with await TidemillHook(self.tidemill_conn_id).get_async_conn() as client:
            request, place = UnitsRequest.from_json(self.request), Place(**self.place)
            # The task claims the units once it has a worker slot. Until then nobody would send their heartbeats, and if
            # the task never goes on, they lapse.
            await client.wait_until_granted(request, place, wait, self._note)
        return {"request": self.request, "give_up_at": self.give_up_at}

    async def on_kill(self) -> None:
        # Only the place. Units would be those of the next try, which has begun if the task was cleared.
        async with await TidemillHook(self.tidemill_conn_id).get_async_conn() as client:
            await client.leave(Place(**self.place))


class TidemillJobTrigger(TidemillTrigger):
    """Waits for the end of an execution: of this one, or of the newest one of a job with these parameters."""

    def __init__(
        self,
        tidemill_conn_id: str,
        execution_id: int | None = None,
        job: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        poll_seconds: float = 10.0,
        stop_on_kill: bool = False,
    ) -> None:
        super().__init__()
        self.tidemill_conn_id, self.execution_id = tidemill_conn_id, execution_id
        self.job, self.parameters = job, dict(parameters or {})
        self.poll_seconds, self.stop_on_kill = poll_seconds, stop_on_kill

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("tidemill_conn_id", "execution_id", "job", "parameters", "poll_seconds", "stop_on_kill")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def event(self) -> dict[str, Any]:
        async with await TidemillHook(self.tidemill_conn_id).get_async_conn() as client:
            while True:
                found: Execution | None
                if self.execution_id is None:
                    found = await client.find_execution(self.job or "", self.parameters)
                else:
                    found = await client.execution(self.execution_id)
                if found and found.is_ended:
                    return {"execution": vars(found)}
                await asyncio.sleep(self.poll_seconds)

    async def on_kill(self) -> None:
        if self.stop_on_kill and self.execution_id is not None:
            async with await TidemillHook(self.tidemill_conn_id).get_async_conn() as client:
                await client.stop(self.execution_id, reason="the task of Airflow was ended")


def stop_quietly(stop: Callable[[], object]) -> None:
    """An error must not replace what ends the task."""
    try:
        stop()
    except Exception:
        log.exception("what the task has begun could not be ended")


def result(event: dict[str, Any]) -> dict[str, Any]:
    """What the trigger found out, or its error."""
    if error := event.get("error"):
        raise ApiError(error["message"], code=error["code"], fix=error["fix"], status=0)
    return event
