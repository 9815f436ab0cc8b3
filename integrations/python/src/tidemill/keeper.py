"""A small process that releases units if the process that holds them is killed.

It waits for the end of its standard input, which comes when that process is gone. `python -m tidemill.keeper` is not for
people.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

DISMISSED = b"dismissed\n"


class Keeper:
    def __init__(self, url: object, headers: Mapping[str, str], grant: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tidemill.keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        token = headers.get("authorization", "").removeprefix("Bearer ")
        self._write(json.dumps({"url": str(url), "token": token, "grant": grant.to_json()}).encode() + b"\n")
        # It has put itself beyond the reach of who ends this process and its children.
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
            pass  # It was killed too. Then the units end as those of a process that is gone.


def main() -> None:
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    told = sys.stdin.buffer.readline()
    if not told or sys.stdin.buffer.readline() == DISMISSED:
        return
    # Not before: most processes end in order, and this takes a while to import.
    from . import pools
    from .client import Client
    from .pools import Grant

    given = json.loads(told)
    with Client(given["url"], given["token"] or None) as client:
        leases = Grant.from_json(given["grant"]).leases
        client.run(pools.release(leases, "failed", "the process that held the units was killed", 600.0))


if __name__ == "__main__":
    main()
