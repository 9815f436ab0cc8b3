"""The connection to a Tidemill server."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from tidemill import ApiError, AsyncClient, Client
from tidemill.transport import RETRY_FOR

from .compat import BaseHook

DEFAULT_PORT = 7790
FORBIDDEN = 403
# A trigger waits in no worker slot, so it can be patient with a server that is away.
TRIGGER_RETRY_FOR = 3600.0


class TidemillHook(BaseHook):
    """Clients for a connection of the type `tidemill`.

    Host is the name of the server, or its whole URL; Schema `http` or `https`; Password an API token. The extra
    `dashboard_url` is the address for people, if it differs.
    """

    conn_name_attr = "tidemill_conn_id"
    default_conn_name = "tidemill_default"
    conn_type = "tidemill"
    hook_name = "Tidemill"

    def __init__(self, tidemill_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.tidemill_conn_id = tidemill_conn_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        return {
            "hidden_fields": ["login"],
            "relabeling": {"password": "API token"},
            "placeholders": {"host": "tidemill.example.com", "schema": "https", "port": str(DEFAULT_PORT)},
        }

    def get_conn(self, retry_for: float = RETRY_FOR) -> Client:
        url, token = _address(self.get_connection(self.tidemill_conn_id))
        return Client(url, token, retry_for=retry_for)

    async def get_async_conn(self) -> AsyncClient:
        url, token = _address(await sync_to_async(self.get_connection)(self.tidemill_conn_id))
        return AsyncClient(url, token, retry_for=TRIGGER_RETRY_FOR)

    def dashboard_url(self) -> str:
        connection = self.get_connection(self.tidemill_conn_id)
        return str(connection.extra_dejson.get("dashboard_url") or _address(connection)[0]).rstrip("/")

    def test_connection(self) -> tuple[bool, str]:
        """Whether the token may request units or see jobs; few tokens may do both."""
        try:
            with self.get_conn(retry_for=0) as client:
                try:
                    client.call("GET", "/status")
                except ApiError as refused:
                    if refused.status != FORBIDDEN:
                        raise
                    client.call("GET", "/api/v1/jobs", limit="1")
        except Exception as error:
            return False, str(error)
        return True, "The server answers, and accepts the token"


def _address(connection: Any) -> tuple[str, str | None]:
    host = connection.host or "127.0.0.1"
    if "://" not in host:
        host = f"{connection.schema or 'http'}://{host}:{connection.port or DEFAULT_PORT}"
    return host, connection.password or None
