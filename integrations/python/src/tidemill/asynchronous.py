"""The client for asyncio. It has the methods of `Client`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any

import httpx

from . import jobs, pools
from .calls import Call, Pause, Plan, Reply, T, send
from .client import RETRY_FOR_AT_END
from .errors import TidemillError
from .jobs import Execution
from .pools import Ask, Grant, Holder, Place, UnitsRequest
from .transport import RETRY_FOR, arguments, no_answer, reply, settings

log = logging.getLogger("tidemill")


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
        self._beating: asyncio.Task[None] | None = None
        self._is_lost = False

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
                await self._quietly(
                    self._client.run(pools.give_up(self._request, self._place, RETRY_FOR_AT_END))
                )
            raise
        self._beating = asyncio.create_task(self._beat(asyncio.current_task()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._beating:
            self._beating.cancel()
        if self._is_lost:
            raise pools.lost([lease.pool for lease in self.grant.leases]) from error
        leases = self.grant.leases
        if error is None:
            await self._client.run(pools.release(leases, "completed", None, RETRY_FOR_AT_END))
        else:
            why = f"{type(error).__name__}: {error}"
            await self._quietly(self._client.run(pools.release(leases, "failed", why, RETRY_FOR_AT_END)))

    def _note(self, place: Place) -> None:
        self._place = place
        if self._on_wait:
            self._on_wait(place)

    async def _beat(self, holder: asyncio.Task[Any] | None) -> None:
        every = self._request.heartbeat
        while every:
            await asyncio.sleep(every)
            for lease in self.grant.leases:
                if not await self._client.run(pools.beat(lease)):
                    self._is_lost = True
                    if holder:
                        holder.cancel()
                    return

    async def _quietly(self, end: Awaitable[None]) -> None:
        """An error of the end must not hide the one that brought it about."""
        try:
            await end
        except Exception as error:
            log.warning("units could not be released: %s", error)
