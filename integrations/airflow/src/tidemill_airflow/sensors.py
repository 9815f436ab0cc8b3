"""Waits for jobs that somebody else launched, such as a schedule of Tidemill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from tidemill import Execution, JobFailed

from .compat import BaseSensorOperator, Context
from .hooks import TidemillHook
from .triggers import TidemillJobTrigger, result


class TidemillJobSensor(BaseSensorOperator):
    """Waits until an execution has completed: `execution_id`, or the newest one of `job` with these parameters.

    An execution that ends in another way fails the sensor.
    """

    template_fields: Sequence[str] = ("execution_id", "job", "parameters")

    def __init__(
        self,
        *,
        execution_id: int | str | None = None,
        job: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        deferrable: bool = True,
        tidemill_conn_id: str = TidemillHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (execution_id is None) == (job is None):
            raise ValueError("name either an execution_id or a job")
        self.execution_id, self.job, self.parameters = execution_id, job, dict(parameters or {})
        self.deferrable, self.tidemill_conn_id = deferrable, tidemill_conn_id

    def poke(self, context: Context) -> bool:
        with TidemillHook(self.tidemill_conn_id).get_conn() as client:
            if self.execution_id is None:
                found = client.find_execution(self.job or "", self.parameters)
            else:
                found = client.execution(int(self.execution_id))
        return found is not None and found.is_ended and _completed(found)

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            execution = None if self.execution_id is None else int(self.execution_id)
            trigger = TidemillJobTrigger(
                self.tidemill_conn_id, execution, self.job, self.parameters, float(self.poke_interval)
            )
            timeout = timedelta(seconds=float(self.timeout))
            self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        _completed(Execution(**result(event)["execution"]))


def _completed(execution: Execution) -> bool:
    if not execution.is_completed:
        raise JobFailed(execution)
    return True
