"""From a task in Airflow to the page of its execution."""

from __future__ import annotations

from typing import Any

from .compat import BaseOperatorLink, XCom

EXECUTION_URL = "tidemill_execution_url"


class TidemillExecutionLink(BaseOperatorLink):
    name = "Tidemill execution"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return str(XCom.get_value(ti_key=ti_key, key=EXECUTION_URL) or "")
