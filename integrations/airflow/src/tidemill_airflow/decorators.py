"""`@task.tidemill`: a function that holds units of a pool while it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidemill import Grant

from .compat import Context, DecoratedOperator, PythonOperator, TaskDecorator, task_decorator_factory
from .hooks import TidemillHook
from .operators import AsksForUnits
from .units import HEARTBEAT_SECONDS, hold

PARAMETER = "granted"


class TidemillDecoratedOperator(AsksForUnits, DecoratedOperator, PythonOperator):
    """Waits for the units without a worker slot, then runs the function while it holds them.

    A parameter `granted` of the function gets the `tidemill.Units`.
    """

    template_fields: Sequence[str] = (*PythonOperator.template_fields, *AsksForUnits.template_fields)
    custom_operator_name = "@task.tidemill"
    heartbeat = HEARTBEAT_SECONDS

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Sequence[Any],
        op_kwargs: Mapping[str, Any],
        **kwargs: Any,
    ) -> None:
        function: dict[str, Any] = {"python_callable": python_callable, "op_args": op_args, "op_kwargs": op_kwargs}
        super().__init__(kwargs_to_upstream=function, **function, **kwargs)

    def granted(self, context: Context, grant: Grant) -> Any:
        client = TidemillHook(self.tidemill_conn_id).get_conn()
        with client, hold(client, self.request(context), self.wait, grant) as units:
            if PARAMETER in inspect.signature(self.python_callable).parameters:
                self.op_kwargs = {**self.op_kwargs, PARAMETER: units}
            # Past `AsksForUnits`, which has done its part.
            return super(AsksForUnits, self).execute(context)


def tidemill_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """Makes a task of a function that holds units while it runs."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=TidemillDecoratedOperator, **kwargs
    )
