"""A small process that releases units if the process that holds them is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

from . import pools
from .pools import Grant

DISMISSED = b"dismissed\n"
# The end of standard input comes when the holder is gone. Most holders dismiss their keeper, so it imports nothing
# before. The fork and the signals put it beyond the reach of who ends the holder and its children.
PROGRAM = f"""
import os, signal, sys
if os.fork():
    os._exit(0)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
told = sys.stdin.buffer.readline()
if told and sys.stdin.buffer.readline() != {DISMISSED!r}:
    from tidemill.keeper import release
    release(told)
"""
RETRY_FOR = 600.0


class Keeper:
    def __init__(self, url: object, headers: Mapping[str, str], grant: Grant) -> None:
        null = subprocess.DEVNULL
        command = [sys.executable, "-c", PROGRAM]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True
        )
        token = headers.get("authorization", "").removeprefix("Bearer ")
        # Not as an argument, which others could read.
        self._write(json.dumps({"url": str(url), "token": token, "grant": grant.to_json()}).encode() + b"\n")
        self._process.wait()

    def dismiss(self) -> None:
        self._write(DISMISSED)
        if self._process.stdin:
            self._process.stdin.close()

    def _write(self, line: bytes) -> None:
        try:
            if self._process.stdin:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except BrokenPipeError:
            pass  # It was killed. Then the units end as those of any process that is gone.


def release(told: bytes) -> None:
    from .client import Client

    given = json.loads(told)
    with Client(given["url"], given["token"] or None) as client:
        leases = Grant.from_json(given["grant"]).leases
        client.run(pools.release(leases, "failed", "the process that held the units was killed", RETRY_FOR))
