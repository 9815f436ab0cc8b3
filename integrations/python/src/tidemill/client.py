"""The client for programs without asyncio."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import FrameType, TracebackType
from typing import Any, NoReturn

import httpx

from . import jobs, pools
from .calls import Call, Pause, Plan, Reply, T, send
from .errors import LeaseLost, TidemillError
from .jobs import Execution
from .keeper import Keeper
from .pools import Ask, Grant, Heartbeats, Holder, Place, UnitsRequest
from .transport import RETRY_FOR, arguments, no_answer, reply, settings

log = logging.getLogger("tidemill")

# A program that ends must not wait for long for a server that is away: what is left ends by itself.
RETRY_FOR_AT_END = 15.0


class Client:
    """Calls the API of a server, by default that of `TIDEMILL_CLIENT_URL` with the token in `TIDEMILL_CLIENT_TOKEN`.

    Several threads may use one client. A call whose answer is lost is repeated for `retry_for` seconds with the same
    idempotency key, so nothing happens twice.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, retry_for: float = RETRY_FOR) -> None:
        self._http = httpx.Client(**settings(url, token))
        self.retry_for = retry_for

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

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
        on_lost: Callable[[], None] | None = None,
        survives_kill: bool = False,
    ) -> Units:
        """Units of a pool, or of several at once, for a `with` block. Waits in the queue without limit, or for `wait`.

        `survives_kill` starts a small process that releases the units if this one is killed.
        """
        more = {"hint": hint, "table": table, "priority": priority, "deadline": deadline, "holder": holder}
        request = UnitsRequest.of(pool, units, min_units, heartbeat=heartbeat, **more)
        return Units(self, request, wait=wait, on_wait=on_wait, on_lost=on_lost, survives_kill=survives_kill)

    def poll(self, request: UnitsRequest, wait: int = 0) -> Grant | Place:
        """Requests units once: granted units, which you must release, or a place in the queue."""
        return self.run(pools.poll(request, wait, self.retry_for))

    def release(self, grant: Grant, *, outcome: str = "completed", error: str | None = None) -> None:
        """Releases units. `outcome` is `completed`, `failed` or `refused`. Raises `LeaseLost` if they were lost."""
        self.run(pools.release(grant.leases, outcome, error, self.retry_for))

    def give_up(self, request: UnitsRequest) -> None:
        """Leaves the queue, and releases what this attempt was granted, even if the answer never came."""
        self.run(pools.give_up(request, None, RETRY_FOR_AT_END))

    def launch(
        self,
        job: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        new_instance: bool = False,
        accept_change: bool = False,
        key: str | None = None,
    ) -> Execution:
        """Launches a job in the server. An instance that failed resumes; `new_instance` adds the next `run.id`."""
        return self.run(jobs.launch(job, parameters, new_instance, accept_change, key, self.retry_for))

    def execution(self, execution: int) -> Execution:
        return self.run(jobs.get(execution, self.retry_for))

    def find_execution(self, job: str, parameters: Mapping[str, Any] | None = None) -> Execution | None:
        """The last execution of a job with these parameters."""
        return self.run(jobs.find(job, parameters, self.retry_for))

    def stop(self, execution: int, *, reason: str | None = None) -> Execution:
        return self.run(jobs.stop(execution, reason, self.retry_for))

    def wait(self, execution: int, *, timeout: float | None = None, poll: float = 5.0) -> Execution:
        """Waits until it has ended. Raises `JobFailed` unless it completed, and `TimeoutError` if it still runs."""
        return self.run(jobs.wait(execution, timeout, poll, self.retry_for))

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: str) -> Any:
        """Any other route of the API, such as `call("GET", "/api/v1/pools/ADW")`."""
        return self.run(send(Call(method, path, body, query), self.retry_for))

    def run(self, plan: Plan[T]) -> T:
        try:
            step = next(plan)
            while True:
                step = plan.send(self._do(step))
        except StopIteration as end:
            result: T = end.value
            return result

    def _do(self, step: Call | Pause) -> Reply:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return Reply(0)
        try:
            return reply(self._http.request(**arguments(step)))
        except httpx.TransportError as error:
            return no_answer(error)


class Units:
    """Units of pools while a `with` block runs. A thread sends heartbeats; the end of the block releases them."""

    def __init__(
        self,
        client: Client,
        request: UnitsRequest,
        *,
        wait: timedelta | None = None,
        on_wait: Callable[[Place], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        survives_kill: bool = False,
        grant: Grant | None = None,
    ) -> None:
        self._client, self._request, self._granted = client, request, grant
        self._wait = None if wait is None else wait.total_seconds()
        self._on_wait, self._on_lost, self._survives_kill = on_wait, on_lost, survives_kill
        self._place: Place | None = None
        self._beats: Heartbeats | None = None
        self._ended = threading.Event()
        self._releasing = threading.Lock()
        self._keeper: Keeper | None = None
        self._sigterm: Any = None

    @property
    def grant(self) -> Grant:
        if self._granted is None:
            raise RuntimeError("the units are granted when the `with` block begins")
        return self._granted

    @property
    def parallel(self) -> int:
        return self.grant.parallel

    @property
    def hint(self) -> str | None:
        return self.grant.hint

    @property
    def is_lost(self) -> bool:
        """Whether somebody has taken the units away. Then stop the work."""
        return self._beats is not None and self._beats.lost is not None

    def check(self) -> None:
        """Raises `LeaseLost` if somebody has taken the units away. Call it between two parts of the work."""
        if self._beats and (lost := self._beats.lost):
            raise lost

    def __enter__(self) -> Units:
        self._unwind_at_sigterm()
        try:
            # First, because it takes a while to start.
            if self._survives_kill:
                self._keeper = Keeper(self._client._http.base_url, self._client._http.headers)
            if self._granted is None:
                plan = pools.acquire(self._request, self._wait, self._note, self._client.retry_for)
                self._granted = self._client.run(plan)
            if self._keeper:
                self._keeper.guard(self._granted)
            beats = self._beats = Heartbeats(self._granted)
            threading.Thread(target=self._beat, args=(beats,), name="tidemill-heartbeat", daemon=True).start()
        except BaseException as error:
            self._restore_sigterm()
            # What the server said about the request stays as it is; anything else must not leave a place behind.
            if not isinstance(error, TidemillError):
                leaving = pools.give_up(self._request, self._place, RETRY_FOR_AT_END)
                self._quietly(lambda: self._client.run(leaving))
            self._dismiss_keeper()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.release()
        else:
            self._quietly(lambda: self.release(outcome="failed", error=pools.summary(error)))

    def release(self, *, outcome: str = "completed", error: str | None = None) -> None:
        """Releases the units before the end of the block. Repeating it does nothing."""
        with self._releasing:
            if self._ended.is_set():
                return
            self._ended.set()
            gone: LeaseLost | None = None
            try:
                # First: if one of several leases was lost, the others are still held.
                self._client.run(pools.release(self.grant.leases, outcome, error, RETRY_FOR_AT_END))
            except LeaseLost as lost:
                gone = lost
            finally:
                self._restore_sigterm()
            self._dismiss_keeper()
            if outcome == "completed":
                self.check()
            if gone:
                raise gone

    def _dismiss_keeper(self) -> None:
        if self._keeper:
            self._keeper.dismiss()

    def _note(self, place: Place) -> None:
        self._place = place
        if self._on_wait:
            self._on_wait(place)

    def _beat(self, beats: Heartbeats) -> None:
        every = self._request.heartbeat
        while every and beats.ours and not self._ended.wait(every):
            was_lost = self.is_lost
            for lease in tuple(beats.ours):
                try:
                    self._client.run(pools.beat(lease))
                    beats.arrived(lease)
                except Exception as error:
                    # The end of the block releases the lease, so a heartbeat that comes after it says nothing.
                    if self._ended.is_set():
                        return
                    beats.failed(lease, error)
            if self.is_lost and not was_lost and self._on_lost:
                try:
                    self._on_lost()
                except Exception:
                    log.exception("`on_lost` failed; the heartbeats of what is left go on")

    def _unwind_at_sigterm(self) -> None:
        """By default SIGTERM ends Python without the ends of its `with` blocks."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._sigterm = signal.signal(signal.SIGTERM, _end)

    def _restore_sigterm(self) -> None:
        if self._sigterm is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._sigterm)
            self._sigterm = None

    def _quietly(self, end: Callable[[], None]) -> None:
        """An error of the end must not hide the one that brought it about."""
        try:
            end()
        except Exception as error:
            log.warning("units could not be released: %s", error)


def _end(number: int, _: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
