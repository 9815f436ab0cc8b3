"""The names that Airflow 2 and Airflow 3 have in different places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow import __version__

IS_AIRFLOW_3 = int(__version__.split(".")[0]) >= 3

if TYPE_CHECKING or IS_AIRFLOW_3:
    from airflow.providers.standard.operators.python import PythonOperator
    from airflow.sdk import (
        BaseOperator,
        BaseOperatorLink,
        BaseSensorOperator,
        Context,
        get_current_context,
    )
    from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory
    from airflow.sdk.execution_time.xcom import XCom
else:
    from airflow.decorators.base import DecoratedOperator, TaskDecorator, task_decorator_factory
    from airflow.models.baseoperator import BaseOperator
    from airflow.models.baseoperatorlink import BaseOperatorLink
    from airflow.models.xcom import XCom
    from airflow.operators.python import PythonOperator, get_current_context
    from airflow.sensors.base import BaseSensorOperator
    from airflow.utils.context import Context

if TYPE_CHECKING:
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowTaskTerminated
else:
    # Airflow 3.0 and 3.1 have them where Airflow 2 does.
    try:
        from airflow.sdk import BaseHook
    except ImportError:
        from airflow.hooks.base import BaseHook
    try:
        from airflow.sdk.exceptions import AirflowTaskTerminated
    except ImportError:
        from airflow.exceptions import AirflowTaskTerminated

__all__ = [
    "IS_AIRFLOW_3",
    "AirflowTaskTerminated",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "BaseSensorOperator",
    "Context",
    "DecoratedOperator",
    "PythonOperator",
    "TaskDecorator",
    "XCom",
    "get_current_context",
    "task_decorator_factory",
]
