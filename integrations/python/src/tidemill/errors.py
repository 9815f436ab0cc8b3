"""What can go wrong. Every error has a code with a page, what happened, and how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .jobs import Execution
    from .pools import Place


class TidemillError(Exception):
    """What happened (`message`), how to fix it (`fix`), and the code, which `tidemill explain CODE` explains."""

    def __init__(self, message: str, *, code: str, fix: str) -> None:
        what = f"{message} ({code})" if code else message.rstrip(".")
        super().__init__(f"{what}. {fix}")
        self.message, self.code, self.fix = message, code, fix


class ApiError(TidemillError):
    """The server refused the request."""

    def __init__(self, message: str, *, code: str, fix: str, status: int, request_id: str | None = None) -> None:
        super().__init__(message, code=code, fix=fix)
        self.status, self.request_id = status, request_id


class LeaseLost(ApiError):
    """The units are no longer yours: an operator released them, or a newer attempt has them. Stop the work."""


class Unreachable(TidemillError):
    """No server answered, although the call was repeated."""

    def __init__(self, reason: str) -> None:
        fix = "Check the address, and that the server runs: `/healthz/ready` answers 200"
        super().__init__(f"no answer from {reason}", code="", fix=fix)


class NotAdmitted(TidemillError):
    """The pool did not grant the units in time. You hold nothing, and you are not in the queue any more."""

    def __init__(self, place: Place, waited: float) -> None:
        message = f"pool {place.pool} granted no units within {waited:.0f} s: place {place.position}, {place.message}"
        super().__init__(message, code="TM1204", fix="Wait longer, or accept fewer units with `min_units`")
        self.place = place


class JobFailed(TidemillError):
    """The execution ended, but not as COMPLETED."""

    def __init__(self, execution: Execution) -> None:
        why = f": {execution.exit_description}" if execution.exit_description else ""
        fix = f"See `tidemill job show {execution.id}`; launching the job again resumes it"
        super().__init__(f"execution {execution.id} of {execution.job} is {execution.status}{why}", code="", fix=fix)
        self.execution = execution
