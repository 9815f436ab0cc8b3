"""Jobs: launch, watch and stop their executions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from .calls import Call, Pause, Plan, send
from .errors import JobFailed

ENDED = frozenset({"COMPLETED", "FAILED", "STOPPED", "ABANDONED", "UNKNOWN"})

FIRST_LOOK = 0.5


@dataclass(frozen=True)
class Execution:
    """One execution of a job."""

    id: int
    job: str
    instance: int
    status: str
    exit_code: str
    exit_description: str
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    crash_restarts: int = 0

    @property
    def is_ended(self) -> bool:
        return self.status in ENDED

    @property
    def is_completed(self) -> bool:
        return self.status == "COMPLETED"

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Execution:
        return cls(**{name: body[name] for name in cls.__dataclass_fields__ if name in body})


def launch(
    job: str,
    parameters: Mapping[str, Any] | None,
    new_instance: bool,
    accept_change: bool,
    key: str | None,
    retry_for: float,
) -> Plan[Execution]:
    """Repeats a launch whose answer was lost with the same key, so the job starts once."""
    body = {
        "parameters": {name: _value(value) for name, value in (parameters or {}).items()},
        "next": new_instance,
        "accept_change": accept_change,
    }
    call = Call("POST", f"/api/v1/jobs/{job}/executions", body, key=key or str(uuid.uuid4()))
    return Execution.from_json((yield from send(call, retry_for)))


def get(execution: int, retry_for: float) -> Plan[Execution]:
    """The execution, or the automatic restart that replaced it after a crash."""
    body = yield from send(Call("GET", f"/api/v1/executions/{execution}"), retry_for)
    found = Execution.from_json(body["execution"])
    if not found.is_ended or found.is_completed:
        return found
    query = {"instance": str(found.instance), "limit": "1"}
    newest = yield from send(Call("GET", "/api/v1/executions", query=query), retry_for)
    for item in newest["items"]:
        latest = Execution.from_json(item)
        if latest.crash_restarts > found.crash_restarts:
            return latest
    return found


def find(job: str, parameters: Mapping[str, Any] | None, retry_for: float) -> Plan[Execution | None]:
    """The last execution of the newest instance that has these parameters, among the newest 500 instances."""
    wanted = {name: str(_value(value)) for name, value in (parameters or {}).items()}
    path = f"/api/v1/jobs/{job}/instances"
    page = yield from send(Call("GET", path, query={"limit": "500"}), retry_for)
    for instance in page["items"]:
        found = {parameter["name"]: parameter["value"] for parameter in instance["parameters"]}
        if instance["last"] and wanted.items() <= found.items():
            return (yield from get(instance["last"]["execution"], retry_for))
    return None


def stop(execution: int, reason: str | None, retry_for: float) -> Plan[Execution]:
    call = Call("POST", f"/api/v1/executions/{execution}/stop", {"reason": reason}, key=str(uuid.uuid4()))
    return Execution.from_json((yield from send(call, retry_for)))


def wait(execution: int, timeout: float | None, poll: float, retry_for: float) -> Plan[Execution]:
    """Waits until it has ended. Raises `JobFailed` unless it completed, and `TimeoutError` if it still runs."""
    give_up = None if timeout is None else time.monotonic() + timeout
    pause = min(FIRST_LOOK, poll)
    while True:
        found = yield from get(execution, retry_for)
        if found.is_completed:
            return found
        if found.is_ended:
            raise JobFailed(found)
        if give_up is not None and time.monotonic() >= give_up:
            raise TimeoutError(f"execution {found.id} of {found.job} is still {found.status} after {timeout} s")
        yield Pause(pause)
        pause = min(pause * 1.5, poll)


def _value(value: Any) -> Any:
    return value.isoformat() if isinstance(value, (date, datetime)) else value
