"""Client of Tidemill: units of pools, jobs, and the outbox and inbox of your database."""

from .asynchronous import AsyncClient, AsyncUnits
from .client import Client, Units
from .errors import ApiError, JobFailed, LeaseLost, NotAdmitted, TidemillError, Unreachable
from .event import Event
from .jobs import Execution
from .pools import Ask, Grant, Holder, Lease, Place, UnitsRequest

__version__ = "0.1.0"

__all__ = [
    "ApiError",
    "Ask",
    "AsyncClient",
    "AsyncUnits",
    "Client",
    "Event",
    "Execution",
    "Grant",
    "Holder",
    "JobFailed",
    "Lease",
    "LeaseLost",
    "NotAdmitted",
    "Place",
    "TidemillError",
    "Units",
    "UnitsRequest",
    "Unreachable",
]
