"""Uses the Python client against a server in this process that loses leases, refuses heartbeats and is slow.

    python client_faults.py sync|asyncio

Prints one JSON object: what came of each case, by its name. Cases that both clients have give the same.
"""

import asyncio
import http.server
import json
import logging
import os
import signal
import sys
import threading
import time
from urllib.parse import parse_qs, urlsplit

from tidemill import Ask, AsyncClient, Client, LeaseLost

BOTH = [Ask("etl", units=3), Ask("erp", units=2)]
GONE = {"code": "TM1207", "detail": "the lease is gone", "remedy": "request again"}
told = {}


class Server(http.server.BaseHTTPRequestHandler):
    """Grants everything. The sets say which pools are lost, whose heartbeats are refused, and which releases are slow."""

    lost, refused, slow = set(), set(), set()
    beaten, released = [], []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/api/v1/requests":
            leases = [{"id": ask["pool"], "pool": ask["pool"], "epoch": 1, "units": 1} for ask in body["pools"]]
            return self.answer(200, {"id": "r", "state": "running", "leases": leases})
        pool = self.path.split("/")[-2]
        self.beaten.append(pool)
        if pool in self.refused:
            return self.answer(401, {"code": "TM0801", "detail": "no", "remedy": "send a token"})
        return self.answer(409, GONE) if pool in self.lost else self.answer(200, {})

    def do_DELETE(self):
        url = urlsplit(self.path)
        pool, query = url.path.split("/")[-1], parse_qs(url.query)
        if pool in self.slow:
            time.sleep(1)
        if pool in self.lost:
            return self.answer(409, GONE)
        self.released.append([pool, query["outcome"][0], query.get("error")])
        return self.answer(200, {})

    def answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Lines(logging.Handler):
    seen = []

    def emit(self, record):
        self.seen.append(record.getMessage())


def until(look):
    for _ in range(3_000):
        if look():
            return
        time.sleep(0.02)
    raise AssertionError("in vain")


def begin(**faults):
    for name in ("lost", "refused", "slow"):
        setattr(Server, name, {faults[name]} if name in faults else set())
    for noted in (Server.beaten, Server.released, Lines.seen):
        noted.clear()


def beats(times):
    """Three heartbeats after the loss, so they go on."""
    until(lambda: Server.beaten.count("etl") >= times)


def failures():
    return sum("heartbeats for the units of etl failed" in line for line in Lines.seen)


def sync_cases(client):
    begin(lost="erp")
    calls = []

    def on_lost():
        calls.append("lost")
        raise RuntimeError("planted")

    try:
        with client.acquire(BOTH, heartbeat=1, on_lost=on_lost) as units:
            beats(3)
            told["knows"] = units.is_lost
    except LeaseLost as error:
        told["half"] = ["erp" in str(error), "etl" in str(error), Server.released, Server.beaten.count("erp"), calls]
        told["half"] = json.loads(json.dumps(told["half"]))

    begin(refused="etl")
    with client.acquire("etl", 1, heartbeat=1):
        until(lambda: failures() == 2)
        told["refused"] = Server.beaten.count("etl")

    begin()
    with client.acquire("etl", 1, heartbeat=1) as units:
        run, units._client.run = units._client.run, lambda plan: 1 / 0
        until(lambda: failures() == 2)
        units._client.run = run
        beats(1)
        told["any_error"] = Server.beaten.count("etl")

    begin()
    try:
        with client.acquire("etl", 1):
            raise ValueError("postgres://user:secret@db: ORA-12516: no handler")
    except ValueError:
        told["failed"] = list(Server.released)

    begin()
    with client.acquire("etl", 1, survives_kill=True) as units:
        kill_keeper()
    told["without_keeper"] = list(Server.released)


def kill_keeper():
    """It has no parent any more, so it is the process whose program it is."""
    for entry in os.listdir("/proc"):
        try:
            command = open(f"/proc/{entry}/cmdline").read() if entry.isdigit() else ""
            environment = open(f"/proc/{entry}/environ").read() if "tidemill.keeper" in command else ""
        except OSError:
            continue
        if f"FAULTS_OF={os.getpid()}" in environment:
            os.kill(int(entry), signal.SIGKILL)
            until(lambda: not os.path.exists(f"/proc/{entry}/fd"))
            return
    raise AssertionError("there is no keeper")


async def async_cases(client):
    begin(lost="erp")
    try:
        async with client.acquire(BOTH, heartbeat=1) as units:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                told["knows"] = True
                await asyncio.to_thread(beats, 3)
                raise
    except LeaseLost as error:
        told["half"] = ["erp" in str(error), "etl" in str(error), list(Server.released), Server.beaten.count("erp")]
    if sys.version_info >= (3, 11):
        told["half"].append(["lost"] * (1 - asyncio.current_task().cancelling()))

    begin(refused="etl")
    async with client.acquire("etl", 1, heartbeat=1):
        await asyncio.to_thread(until, lambda: failures() == 2)
        told["refused"] = Server.beaten.count("etl")

    begin()
    async with client.acquire("etl", 1, heartbeat=1) as units:
        run, units._client.run = units._client.run, lambda plan: 1 / 0
        await asyncio.to_thread(until, lambda: failures() == 2)
        units._client.run = run
        await asyncio.to_thread(beats, 1)
        told["any_error"] = Server.beaten.count("etl")

    begin()
    try:
        async with client.acquire("etl", 1):
            raise ValueError("postgres://user:secret@db: ORA-12516: no handler")
    except ValueError:
        told["failed"] = list(Server.released)

    # The body's own error is more than the loss that brought it about.
    begin(lost="etl")
    try:
        async with client.acquire("etl", 1, heartbeat=1):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise ValueError("planted") from None
    except ValueError as error:
        told["own_error"] = str(error)

    async def holds():
        async with client.acquire("etl", 1, heartbeat=1):
            await asyncio.sleep(60)

    # Cancelled once more while it releases.
    begin(slow="etl")
    task = asyncio.create_task(holds())
    await asyncio.sleep(0.5)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.2)
    await asyncio.wait([task])
    told["cancelled_twice"] = [task.cancelled(), list(Server.released)]

    async def is_lost_and_cancelled():
        async with client.acquire("etl", 1, heartbeat=1):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                # Ours. The other one comes while it is handled.
                await asyncio.sleep(60)

    begin(lost="etl")
    task = asyncio.create_task(is_lost_and_cancelled())
    await asyncio.to_thread(until, lambda: "the units of etl were taken away; stop the work" in Lines.seen)
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.wait([task])
    told["lost_and_cancelled"] = task.cancelled()


async def run_async(url):
    async with AsyncClient(url) as client:
        await async_cases(client)


logging.getLogger("tidemill").addHandler(Lines())
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}"
# So that it knows its own keeper.
os.environ["FAULTS_OF"] = str(os.getpid())
if sys.argv[1] == "sync":
    with Client(address) as given:
        sync_cases(given)
else:
    asyncio.run(run_async(address))
print(json.dumps(told))
