"""The client for asyncio. It has the methods of `Client`."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any

import httpx

from . import jobs, pools
from .calls import Call, Pause, Plan, Reply, T, send
from .client import RETRY_FOR_AT_END
from .errors import LeaseLost, TidemillError
from .jobs import Execution
from .pools import Ask, Grant, Heartbeats, Holder, Place, UnitsRequest
from .transport import RETRY_FOR, arguments, no_answer, reply, settings

log = logging.getLogger("tidemill")

# How long a task that is cancelled while it releases its units goes on releasing them.
PATIENCE_AT_CANCEL = 5.0
# The message of our own cancellation.
LOST = "tidemill: the units were taken away"


class AsyncClient:
    """Calls the API of a server, by default that of `TIDEMILL_CLIENT_URL` with the token in `TIDEMILL_CLIENT_TOKEN`."""

    def __init__(self, url: str | None = None, token: str | None = None, *, retry_for: float = RETRY_FOR) -> None:
        self._http = httpx.AsyncClient(**settings(url, token))
        self.retry_for = retry_for

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    def acquire(
        self,
        pool: str | Sequence[Ask],
        units: int | None = None,
        *,
        min_units: int | None = None,
        hint: str | None = None,
        table: str | None = None,
        priority: str | None = None,
        deadline: datetime | None = None,
        holder: Holder | None = None,
        heartbeat: int | None = None,
        wait: timedelta | None = None,
        on_wait: Callable[[Place], None] | None = None,
    ) -> AsyncUnits:
        """Units of a pool, or of several at once, for an `async with` block.

        If somebody takes the units away, the block is cancelled and raises `LeaseLost`.
        """
        more = {"hint": hint, "table": table, "priority": priority, "deadline": deadline, "holder": holder}
        request = UnitsRequest.of(pool, units, min_units, heartbeat=heartbeat, **more)
        return AsyncUnits(self, request, wait, on_wait)

    async def poll(self, request: UnitsRequest, wait: int = 0) -> Grant | Place:
        return await self.run(pools.poll(request, wait, self.retry_for))

    async def wait_for_units(
        self, request: UnitsRequest, wait: timedelta | None = None, on_wait: Callable[[Place], None] | None = None
    ) -> Grant:
        """Waits in the queue. You must release what you get."""
        seconds = None if wait is None else wait.total_seconds()
        return await self.run(pools.acquire(request, seconds, on_wait, self.retry_for))

    async def wait_until_granted(
        self,
        request: UnitsRequest,
        place: Place,
        wait: timedelta | None = None,
        on_wait: Callable[[Place], None] | None = None,
    ) -> None:
        """Waits until units are set aside for the request. `poll` claims them, within the `claim_for` of the pool."""
        seconds = None if wait is None else wait.total_seconds()
        await self.run(pools.until_granted(request, place, seconds, on_wait, self.retry_for))

    async def leave(self, place: Place) -> bool:
        """Leaves the queue. False if the place is gone, or if an attempt of the holder has got the units."""
        return await self.run(pools.leave(place, RETRY_FOR_AT_END))

    async def release(self, grant: Grant, *, outcome: str = "completed", error: str | None = None) -> None:
        await self.run(pools.release(grant.leases, outcome, error, self.retry_for))

    async def launch(
        self,
        job: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        new_instance: bool = False,
        accept_change: bool = False,
        key: str | None = None,
    ) -> Execution:
        return await self.run(jobs.launch(job, parameters, new_instance, accept_change, key, self.retry_for))

    async def execution(self, execution: int) -> Execution:
        return await self.run(jobs.get(execution, self.retry_for))

    async def find_execution(self, job: str, parameters: Mapping[str, Any] | None = None) -> Execution | None:
        return await self.run(jobs.find(job, parameters, self.retry_for))

    async def stop(self, execution: int, *, reason: str | None = None) -> Execution:
        return await self.run(jobs.stop(execution, reason, self.retry_for))

    async def wait(self, execution: int, *, timeout: float | None = None, poll: float = 5.0) -> Execution:
        return await self.run(jobs.wait(execution, timeout, poll, self.retry_for))

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: str) -> Any:
        return await self.run(send(Call(method, path, body, query), self.retry_for))

    async def run(self, plan: Plan[T]) -> T:
        try:
            step = next(plan)
            while True:
                step = plan.send(await self._do(step))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _do(self, step: Call | Pause) -> Reply:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return Reply(0)
        try:
            return reply(await self._http.request(**arguments(step)))
        except httpx.TransportError as error:
            return no_answer(error)


class AsyncUnits:
    """Units of pools while an `async with` block runs."""

    def __init__(
        self,
        client: AsyncClient,
        request: UnitsRequest,
        wait: timedelta | None,
        on_wait: Callable[[Place], None] | None,
    ) -> None:
        self._client, self._request, self._wait, self._on_wait = client, request, wait, on_wait
        self._place: Place | None = None
        self._granted: Grant | None = None
        self._beats: Heartbeats | None = None
        self._beating: asyncio.Task[None] | None = None
        # The task of the block, and how often it had been cancelled when the block began.
        self._task: asyncio.Task[Any] | None = None
        self._cancels = 0
        self._has_cancelled = False

    @property
    def grant(self) -> Grant:
        if self._granted is None:
            raise RuntimeError("the units are granted when the `async with` block begins")
        return self._granted

    @property
    def parallel(self) -> int:
        return self.grant.parallel

    @property
    def hint(self) -> str | None:
        return self.grant.hint

    async def __aenter__(self) -> AsyncUnits:
        wait = None if self._wait is None else self._wait.total_seconds()
        try:
            plan = pools.acquire(self._request, wait, self._note, self._client.retry_for)
            self._granted = await self._client.run(plan)
        except BaseException as error:
            if not isinstance(error, TidemillError):
                leaving = pools.give_up(self._request, self._place, RETRY_FOR_AT_END)
                await self._quietly(_to_the_end(self._client.run(leaving)))
            raise
        self._beats, self._task = Heartbeats(self._granted), asyncio.current_task()
        self._cancels = _cancels(self._task)
        self._beating = asyncio.create_task(self._beat(self._beats))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._beating:
            self._beating.cancel()
        is_ours = self._take_back_cancel(error)
        lost = self._beats.lost if self._beats else None
        outcome, why = ("completed", None) if error is None else ("failed", pools.summary(lost if lost and is_ours else error))
        # First: if one of several leases was lost, the others are still held.
        plan = pools.release(self.grant.leases, outcome, why, RETRY_FOR_AT_END)
        releasing = _to_the_end(self._client.run(plan))
        if error is None and not lost:
            await releasing
            return
        await self._quietly(releasing)
        if lost and (error is None or is_ours):
            raise lost from error

    def _take_back_cancel(self, error: BaseException | None) -> bool:
        """Whether the block ended because we cancelled it, and nobody else did."""
        task = asyncio.current_task()
        if not self._has_cancelled or not task or self._task is not task:
            return False
        if sys.version_info >= (3, 11) and task.uncancel() > self._cancels:
            return False
        # Python 3.10 does not count.
        return isinstance(error, asyncio.CancelledError) and (sys.version_info >= (3, 11) or error.args == (LOST,))

    def _note(self, place: Place) -> None:
        self._place = place
        if self._on_wait:
            self._on_wait(place)

    async def _beat(self, beats: Heartbeats) -> None:
        every = self._request.heartbeat
        while every and beats.ours:
            await asyncio.sleep(every)
            for lease in tuple(beats.ours):
                try:
                    await self._client.run(pools.beat(lease))
                    beats.arrived(lease)
                except Exception as error:
                    beats.failed(lease, error)
            if beats.lost and self._task and not self._has_cancelled:
                self._has_cancelled = True
                self._task.cancel(LOST)

    async def _quietly(self, end: Awaitable[None]) -> None:
        """An error of the end must not hide the one that brought it about."""
        try:
            await end
        except LeaseLost as error:
            log.warning("%s", error)
        except Exception as error:
            log.warning("units could not be released: %s", error)


def _cancels(task: asyncio.Task[Any] | None) -> int:
    if sys.version_info >= (3, 11):
        return task.cancelling() if task else 0
    return 0


async def _to_the_end(end: Coroutine[Any, Any, None]) -> None:
    """Goes on for a moment if the task is cancelled meanwhile, and only then passes the cancellation on."""
    loop = asyncio.get_running_loop()
    ending, cancelled, give_up_at = loop.create_task(end), None, math.inf
    while not ending.done() and (now := loop.time()) < give_up_at:
        try:
            # Unlike `await`, it does not cancel what it waits for.
            await asyncio.wait({ending}, timeout=None if cancelled is None else give_up_at - now)
        except asyncio.CancelledError as error:
            # Our own may come as late as this, if the block ended in the same moment.
            if cancelled is None and error.args != (LOST,):
                cancelled, give_up_at = error, loop.time() + PATIENCE_AT_CANCEL
    if cancelled is None:
        return ending.result()
    ending.cancel()
    await asyncio.wait({ending})
    if not ending.cancelled() and (failed := ending.exception()):
        log.warning("units could not be released: %s", failed)
    raise cancelled
