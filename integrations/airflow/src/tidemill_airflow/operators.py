"""Units of a pool for the tasks that follow, and jobs of Tidemill."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from tidemill import ApiError, Client, Execution, Grant, JobFailed, LeaseLost, UnitsRequest

from .compat import BaseOperator, Context
from .hooks import TidemillHook
from .links import EXECUTION_URL, TidemillExecutionLink
from .triggers import TidemillJobTrigger, TidemillUnitsTrigger, result, stop_quietly
from .units import request_of

RUNS_ALREADY, ENDED_ALREADY = "TM1003", "TM1004"


class AsksForUnits(BaseOperator):
    """Waits for units of a pool without a worker slot, and then calls `granted`."""

    template_fields: Sequence[str] = ("tidemill_pool", "units", "min_units", "hint", "table")
    # Seconds between the heartbeats of the task. None: the units are held after the task has ended.
    heartbeat: int | None = None

    def __init__(
        self,
        *,
        tidemill_pool: str,
        units: int | str | None = None,
        min_units: int | str | None = None,
        hint: str | None = None,
        table: str | None = None,
        priority: str = "normal",
        wait: timedelta | None = None,
        tidemill_conn_id: str = TidemillHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tidemill_pool, self.units, self.min_units = tidemill_pool, units, min_units
        self.hint, self.table, self.priority = hint, table, priority
        self.wait, self.tidemill_conn_id = wait, tidemill_conn_id
        self._asked: UnitsRequest | None = None

    def granted(self, context: Context, grant: Grant) -> Any:
        raise NotImplementedError

    def request(self, context: Context) -> UnitsRequest:
        asked = (self.tidemill_pool, self.units, self.min_units, self.hint, self.table, self.priority)
        return request_of(context, *asked, heartbeat=self.heartbeat)

    def execute(self, context: Context) -> Any:
        give_up_at = None if self.wait is None else time.time() + self.wait.total_seconds()
        return self._ask(context, self.request(context), give_up_at)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Claims the units, or waits once more: they lapse if no worker slot becomes free in time."""
        granted = result(event)
        return self._ask(context, UnitsRequest.from_json(granted["request"]), granted["give_up_at"])

    def _ask(self, context: Context, request: UnitsRequest, give_up_at: float | None) -> Any:
        self._asked = request
        with TidemillHook(self.tidemill_conn_id).get_conn() as client:
            answer = client.poll(request)
        if isinstance(answer, Grant):
            return self.granted(context, answer)
        self.log.info("pool %s: place %s in the queue: %s", answer.pool, answer.position, answer.message)
        trigger = TidemillUnitsTrigger(self.tidemill_conn_id, request.to_json(), vars(answer), give_up_at)
        self.defer(trigger=trigger, method_name="execute_complete")


class TidemillAcquireOperator(AsksForUnits):
    """Units of a pool for the tasks between this one and its `release()`.

    Returns the grant: `parallel`, `units`, `hint` (with the granted degree) and `leases`. The units are held until the
    release, or for the `max_hold` of the pool, because nobody sends heartbeats between tasks.
    """

    def granted(self, context: Context, grant: Grant) -> Any:
        return grant.to_json()

    def on_kill(self) -> None:
        # Its teardown does not run, and nobody else knows of the grant.
        if self._asked is not None:
            request = self._asked
            with TidemillHook(self.tidemill_conn_id).get_conn() as client:
                stop_quietly(lambda: client.give_up(request))

    def release(self, task_id: str = "release", **kwargs: Any) -> TidemillReleaseOperator:
        """The task that releases the units, as the teardown of this one: it runs however the tasks between them end."""
        release = TidemillReleaseOperator(
            task_id=task_id, grant=self.output, tidemill_conn_id=self.tidemill_conn_id, **kwargs
        )
        release.as_teardown(setups=self)
        return release


class TidemillReleaseOperator(BaseOperator):
    """Releases what a `TidemillAcquireOperator` returned."""

    template_fields: Sequence[str] = ("grant",)

    def __init__(
        self, *, grant: Any, tidemill_conn_id: str = TidemillHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.grant, self.tidemill_conn_id = grant, tidemill_conn_id

    def execute(self, context: Context) -> None:
        with TidemillHook(self.tidemill_conn_id).get_conn() as client:
            try:
                client.release(Grant.from_json(self.grant))
            except LeaseLost as gone:
                self.log.warning("there was nothing to release: %s", gone)


class TidemillJobOperator(BaseOperator):
    """Launches a job in the server, and waits for its end without a worker slot.

    A repeated try resumes the instance where it ended, or waits for the execution of the try before it. If the task is
    ended, the execution is stopped.
    """

    template_fields: Sequence[str] = ("job", "parameters")
    operator_extra_links = (TidemillExecutionLink(),)

    def __init__(
        self,
        *,
        job: str,
        parameters: Mapping[str, Any] | None = None,
        new_instance: bool = False,
        accept_change: bool = False,
        wait_for_completion: bool = True,
        deferrable: bool = True,
        poll_seconds: float = 10.0,
        tidemill_conn_id: str = TidemillHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job, self.parameters = job, dict(parameters or {})
        self.new_instance, self.accept_change = new_instance, accept_change
        self.wait_for_completion, self.deferrable = wait_for_completion, deferrable
        self.poll_seconds, self.tidemill_conn_id = poll_seconds, tidemill_conn_id
        self.execution_id: int | None = None

    def execute(self, context: Context) -> Any:
        ti: Any = context["ti"]
        attempt = (ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number, self.job, self.parameters)
        hook = TidemillHook(self.tidemill_conn_id)
        with hook.get_conn() as client:
            launched = self._launch(client, str(uuid.uuid5(uuid.NAMESPACE_OID, repr(attempt))), ti.try_number > 1)
            self.execution_id = launched.id
            ti.xcom_push(key=EXECUTION_URL, value=f"{hook.dashboard_url()}/executions/{launched.id}")
            self.log.info("execution %s of %s is %s", launched.id, self.job, launched.status)
            if not self.wait_for_completion or launched.is_completed:
                return vars(launched)
            if not self.deferrable:
                return vars(client.wait(launched.id, poll=self.poll_seconds))
        trigger = TidemillJobTrigger(
            self.tidemill_conn_id, launched.id, poll_seconds=self.poll_seconds, stop_on_kill=True
        )
        self.defer(trigger=trigger, method_name="execute_complete")

    def _launch(self, client: Client, key: str, is_retry: bool) -> Execution:
        """Launches the job. A retry finds the execution of an earlier try that still runs, or has completed meanwhile."""
        try:
            return client.launch(
                self.job,
                self.parameters,
                new_instance=self.new_instance,
                accept_change=self.accept_change,
                key=key,
            )
        except ApiError as refused:
            if not is_retry or refused.code not in (RUNS_ALREADY, ENDED_ALREADY):
                raise
            found = client.find_execution(self.job, self.parameters)
            if found is None or (found.is_ended and not found.is_completed):
                raise
            return found

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        execution = Execution(**result(event)["execution"])
        if not execution.is_completed:
            raise JobFailed(execution)
        return vars(execution)

    def on_kill(self) -> None:
        if self.execution_id is not None:
            stop_quietly(self._stop)

    def _stop(self) -> None:
        with TidemillHook(self.tidemill_conn_id).get_conn() as client:
            client.stop(self.execution_id or 0, reason="the task of Airflow was ended")
