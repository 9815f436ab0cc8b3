"""Units of pools: what is asked for, what is granted, and the plans that get and release it."""

from __future__ import annotations

import logging
import math
import os
import re
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from .calls import LEASE_GONE, Call, Pause, Plan, send
from .errors import ApiError, LeaseLost, NotAdmitted

# The server answers after 50 seconds at most, and proxies often end a connection after 60.
LONGEST_POLL = 45
# An answer that comes earlier than it was allowed to is that of a server that stops; another one takes over.
SHORTEST_POLL = 1.0
GIVE_UP_TRIES = 3
# Seconds between two looks at a place whose units shall not be claimed yet.
LOOK_EACH = 5.0
NOT_FOUND = 404
# The first heartbeat that fails is logged, and then each third one.
LOG_EACH = 3

# What the server looks for in the error of a release, which opens the circuit breaker of the pool.
REFUSALS = re.compile(
    r"\bORA-\d+\b|\bSQLSTATE\W*53300\b|\bFATAL:? *53300\b|sorry, too many clients already"
    r"|remaining connection slots are reserved|too many connections for ",
    re.IGNORECASE,
)

log = logging.getLogger("tidemill")


@dataclass(frozen=True)
class Holder:
    """Who holds the units. A request of the same holder gets the lease that the holder already has."""

    dag_id: str
    run_id: str
    task: str = ""
    map_index: int = -1

    @classmethod
    def of_this_process(cls) -> Holder:
        program = os.path.basename(sys.argv[0]) or "python"
        return cls(program[:200], uuid.uuid4().hex)


@dataclass(frozen=True)
class Ask:
    """What you want of one pool. Without `units`, the degree of the hint or the default of the pool counts."""

    pool: str
    units: int | None = None
    min_units: int | None = None
    sessions: int | None = None

    def to_json(self) -> dict[str, Any]:
        named = {"pool": self.pool, "parallel": self.units, "min": self.min_units, "sessions": self.sessions}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True)
class UnitsRequest:
    """A request, the same in each of its polls."""

    asks: tuple[Ask, ...]
    holder: Holder = field(default_factory=Holder.of_this_process)
    hint: str | None = None
    table: str | None = None
    priority: str = "normal"
    deadline: datetime | None = None
    # Seconds between two heartbeats. None: nobody sends heartbeats, and the lease lasts for the `max_hold` of the pool.
    heartbeat: int | None = 20
    # One attempt of the holder. Who asks with another key is a newer attempt, and fences this one.
    key: str = field(default_factory=lambda: str(uuid.uuid4()))

    @classmethod
    def of(cls, pool: str | Sequence[Ask], units: int | None, min_units: int | None, **more: Any) -> UnitsRequest:
        asks = (Ask(pool, units, min_units),) if isinstance(pool, str) else tuple(pool)
        return cls(asks, **{name: value for name, value in more.items() if value is not None})

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"deadline": self.deadline and self.deadline.isoformat()}

    @classmethod
    def from_json(cls, text: Mapping[str, Any]) -> UnitsRequest:
        fields = dict(text)
        fields["asks"] = tuple(Ask(**ask) for ask in fields["asks"])
        fields["holder"] = Holder(**fields["holder"])
        fields["deadline"] = fields["deadline"] and datetime.fromisoformat(fields["deadline"])
        return cls(**fields)

    def call(self, wait: int) -> Call:
        deadline = self.deadline.astimezone().isoformat() if self.deadline else None
        optional = {"hint": self.hint, "table": self.table, "deadline": deadline, "heartbeat_seconds": self.heartbeat}
        body = {
            "pools": [ask.to_json() for ask in self.asks],
            "holder": asdict(self.holder),
            "class": self.priority,
            "wait_seconds": wait,
            **{name: value for name, value in optional.items() if value is not None},
        }
        return Call("POST", "/api/v1/requests", body, key=self.key, waits=wait)


@dataclass(frozen=True)
class Lease:
    """The units of one pool. `hint` is the hint of the request with the granted degree: run with it."""

    id: str
    pool: str
    epoch: int
    asked: int
    parallel: int
    units: int
    hint: str | None = None


@dataclass(frozen=True)
class Grant:
    """Granted units, with one lease for each pool. `parallel`, `units` and `hint` are those of the first."""

    id: str
    leases: tuple[Lease, ...]
    warnings: tuple[str, ...] = ()

    @property
    def parallel(self) -> int:
        return self.leases[0].parallel

    @property
    def units(self) -> int:
        return self.leases[0].units

    @property
    def hint(self) -> str | None:
        return self.leases[0].hint

    def to_json(self) -> dict[str, Any]:
        first = {"parallel": self.parallel, "units": self.units, "hint": self.hint}
        rest = {"leases": [asdict(lease) for lease in self.leases], "warnings": list(self.warnings)}
        return {"id": self.id, **first, **rest}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Grant:
        names = ("id", "pool", "epoch", "asked", "parallel", "units", "hint")
        leases = tuple(Lease(**{name: lease.get(name) for name in names}) for lease in body["leases"])
        texts = (warning["text"] if isinstance(warning, dict) else warning for warning in body.get("warnings", ()))
        return cls(str(body["id"]), leases, tuple(texts))


@dataclass(frozen=True)
class Place:
    """A place in the queue."""

    id: str
    pool: str
    position: int
    reason: str
    message: str
    eta_seconds: int | None = None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Place:
        names = ("pool", "position", "reason", "message", "eta_seconds")
        return cls(str(body["id"]), **{name: body["waits"].get(name) for name in names})


def poll(request: UnitsRequest, wait: int, retry_for: float) -> Plan[Grant | Place]:
    """Asks once, and waits for at most so many seconds."""
    body = yield from send(request.call(wait), retry_for)
    return Grant.from_json(body) if body["state"] == "running" else Place.from_json(body)


def acquire(
    request: UnitsRequest, wait: float | None, on_wait: Callable[[Place], None] | None, retry_for: float
) -> Plan[Grant]:
    """Waits in the queue until the units are granted."""
    start, seconds = time.monotonic(), 0
    while True:
        asked = time.monotonic()
        answer = yield from poll(request, seconds, retry_for)
        if isinstance(answer, Grant):
            return answer
        if on_wait:
            on_wait(answer)
        now = time.monotonic()
        left = math.inf if wait is None else start + wait - now
        if left <= 0:
            yield from give_up(request, answer, retry_for)
            raise NotAdmitted(answer, now - start)
        if seconds and now - asked < SHORTEST_POLL:
            yield Pause(SHORTEST_POLL)
        seconds = math.ceil(min(LONGEST_POLL, left))


def until_granted(
    request: UnitsRequest, place: Place, wait: float | None, on_wait: Callable[[Place], None] | None, retry_for: float
) -> Plan[None]:
    """Waits in the queue until units are set aside, and leaves them there: who repeats the request claims them."""
    start = asked = time.monotonic()
    while True:
        state = yield from _state(place, retry_for)
        if state not in ("waiting", "gone"):
            return
        now = time.monotonic()
        left = math.inf if wait is None else start + wait - now
        if left <= 0:
            yield from give_up(request, place, retry_for)
            raise NotAdmitted(place, now - start)
        # A place that nobody asks for expires. This claims units only if they are granted at this very moment.
        if state == "gone" or now - asked >= LONGEST_POLL:
            answer = yield from poll(request, 0, retry_for)
            if isinstance(answer, Grant):
                return
            place, asked = answer, now
            if on_wait:
                on_wait(answer)
        yield Pause(min(LOOK_EACH, left))


def _state(place: Place, retry_for: float) -> Plan[str]:
    try:
        body = yield from send(Call("GET", f"/api/v1/requests/{place.id}"), retry_for)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return "gone"
    states = {item["state"] for item in body["items"]}
    if states & {"released", "expired", "cancelled"}:
        return "gone"
    return "waiting" if "waiting" in states else "granted"


def leave(place: Place, retry_for: float) -> Plan[bool]:
    """Leaves the queue. False if the place is gone, or if an attempt of the holder has got the units."""
    try:
        yield from send(Call("DELETE", f"/api/v1/requests/{place.id}"), retry_for)
        return True
    except ApiError as error:
        if error.status not in (400, 404, 409):
            raise
        return False


def give_up(request: UnitsRequest, place: Place | None, retry_for: float) -> Plan[None]:
    """Leaves the queue, and releases what was granted to this attempt meanwhile, even if the answer never came."""
    for _ in range(GIVE_UP_TRIES):
        if place and (yield from leave(place, retry_for)):
            return
        answer = yield from poll(request, 0, retry_for)
        if isinstance(answer, Grant):
            yield from release(answer.leases, "completed", None, retry_for)
            return
        place = answer


def summary(error: BaseException) -> str:
    """The type of an error, and what says that a database refused a connection. The rest of the text stays here.

    A URL is logged on its way, and the text of an error may have addresses, names and passwords.
    """
    return ": ".join([type(error).__name__, *REFUSALS.findall(str(error))])[:500]


def release(leases: Sequence[Lease], outcome: str, error: str | None, retry_for: float) -> Plan[None]:
    """Releases all of them, and only then says that one of them was lost, or that the server refused it."""
    refused: ApiError | None = None
    for lease in leases:
        query = {"epoch": str(lease.epoch), "outcome": outcome, **({"error": error[:500]} if error else {})}
        # The key follows from the lease, so that two programs may release it: the second gets the answer of the first.
        key = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{lease.id}/{query}"))
        try:
            yield from send(Call("DELETE", f"/api/v1/pool-leases/{lease.id}", query=query, key=key), retry_for)
        except ApiError as error_of_lease:
            if not isinstance(refused, LeaseLost):
                refused = error_of_lease
    if refused:
        raise refused


def beat(lease: Lease) -> Plan[None]:
    """One heartbeat, which nobody repeats: the next one follows soon. Raises `LeaseLost` if the units are lost."""
    call = Call("POST", f"/api/v1/pool-leases/{lease.id}/heartbeat", {"epoch": lease.epoch})
    yield from send(call, 0)


class Heartbeats:
    """What the heartbeats of a grant have shown: which leases are still ours, and how often a heartbeat failed."""

    def __init__(self, grant: Grant) -> None:
        self.ours = list(grant.leases)
        self._gone: list[Lease] = []
        self._failures: dict[str, int] = {}

    @property
    def lost(self) -> LeaseLost | None:
        """The error that says which units are gone."""
        if not self._gone:
            return None
        names = ", ".join(lease.pool for lease in self._gone)
        message = f"the units of {names} are no longer yours: an operator released them, or a newer attempt has them"
        return LeaseLost(message, code=LEASE_GONE, fix="Stop the work, or request units again", status=409)

    def arrived(self, lease: Lease) -> None:
        self._failures.pop(lease.id, None)

    def failed(self, lease: Lease, error: Exception) -> None:
        """Notes a heartbeat that failed. Only one that the server answered says that the units are gone."""
        if isinstance(error, LeaseLost):
            log.error("the units of %s were taken away; stop the work", lease.pool)
            self.ours.remove(lease)
            self._gone.append(lease)
            return
        times = self._failures[lease.id] = self._failures.get(lease.id, 0) + 1
        if times == 1 or times % LOG_EACH == 0:
            log.warning("%s heartbeats for the units of %s failed in a row: %s", times, lease.pool, error)
