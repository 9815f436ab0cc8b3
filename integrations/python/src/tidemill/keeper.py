"""A small process that releases units if the process that holds them is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from . import pools
from .pools import Grant

DISMISSED = "dismissed"
# It reads until the holder is gone. Most holders dismiss their keeper, so it imports nothing before. The fork and the
# signals put it beyond the reach of who ends the holder and its children.
PROGRAM = """
import os, signal, sys
if os.fork():
    os._exit(0)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
told = sys.stdin.buffer.readlines()
if len(told) == 2:
    from tidemill.keeper import release
    release(*told)
"""
RETRY_FOR = 600.0


class Keeper:
    """Learns the address of the server, then what to guard, then that it is dismissed."""

    def __init__(self, url: object, headers: Mapping[str, str]) -> None:
        null = subprocess.DEVNULL
        command = [sys.executable, "-c", PROGRAM]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True
        )
        # Not as an argument, which others could read.
        self._tell({"url": str(url), "token": headers.get("authorization", "").removeprefix("Bearer ")})
        self._process.wait()

    def guard(self, grant: Grant) -> None:
        self._tell(grant.to_json())

    def dismiss(self) -> None:
        # Without a grant there is nothing to release, whatever it is told.
        self._tell(DISMISSED)
        self._tell(DISMISSED)
        try:
            if self._process.stdin:
                self._process.stdin.close()
        except BrokenPipeError:
            pass  # It was killed, and what it was told stays in our buffer.

    def _tell(self, line: Any) -> None:
        try:
            if self._process.stdin:
                self._process.stdin.write(json.dumps(line).encode() + b"\n")
                self._process.stdin.flush()
        except BrokenPipeError:
            pass  # It was killed. Then the units end as those of any process that is gone.


def release(server: bytes, grant: bytes) -> None:
    from .client import Client

    given = json.loads(server)
    with Client(given["url"], given["token"] or None) as client:
        leases = Grant.from_json(json.loads(grant)).leases
        client.run(pools.release(leases, "failed", "the process that held the units was killed", RETRY_FOR))
