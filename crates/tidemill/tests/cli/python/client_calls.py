"""Uses the Python client against the server at TIDEMILL_CLIENT_URL, which has the pool `etl` of 10 units and two jobs.

    python client_calls.py sync|asyncio

Prints one JSON object: what came of each case, by its name. Both clients give the same.
"""

import asyncio
import http.server
import json
import os
import sys
import threading
import time
import urllib.request
from datetime import date, timedelta

import tidemill
from tidemill import Ask, AsyncClient, Client, Holder, JobFailed, LeaseLost, NotAdmitted, Unreachable

URL = os.environ["TIDEMILL_CLIENT_URL"]
HINT = "/*+ PARALLEL(16) FULL(A) */"
told = {}


class Forgetful(http.server.BaseHTTPRequestHandler):
    """Stands before the server and loses the first answer to each change: the work is done, and nobody hears of it."""

    seen = {}

    def do(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else None
        headers = {name: value for name, value in self.headers.items() if name.lower() in WANTED}
        request = urllib.request.Request(URL + self.path, body, headers, method=self.command)
        with urllib.request.urlopen(request) as answer:
            status, content = answer.status, answer.read()
        times = self.seen[self.command, self.path] = self.seen.get((self.command, self.path), 0) + 1
        if times == 1 and "heartbeat" not in self.path:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = do

    def log_message(self, *_):
        pass


WANTED = {"content-type", "idempotency-key", "accept"}


def forgetful():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forgetful)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def pool(name="etl"):
    found = watch.call("GET", f"/api/v1/pools/{name}")
    return [found["in_use"], found["waiting"]]


def until(look):
    for _ in range(3_000):
        if look():
            return
        time.sleep(0.02)
    raise AssertionError("in vain")


def holder(name):
    return Holder("client", f"{name}-{sys.argv[1]}")


def lease_of(name, pool="etl"):
    holders = watch.call("GET", f"/api/v1/pools/{pool}/holders")["items"]
    return next(lease for lease in holders if lease["holder"]["run_id"] == holder(name).run_id)


def until_it_beats(name="beats", pool="etl"):
    """Heartbeats move the end of the lease."""
    first = lease_of(name, pool)["expires_at"]
    until(lambda: lease_of(name, pool)["expires_at"] > first)
    return True


def take_away(name):
    watch.call("POST", f"/api/v1/pool-leases/{lease_of(name)['id']}/release", {"reason": "planted"})


def told_of(error):
    return [type(error).__name__, getattr(error, "code", ""), bool(getattr(error, "fix", ""))]


def sync_cases(client):
    with client.acquire("etl", 16, min_units=2, hint=HINT, holder=holder("holds")) as units:
        told["held"] = [units.grant.units, units.parallel, units.hint, pool()]
    told["released"] = pool()

    both = [Ask("etl", units=3), Ask("erp", units=2)]
    with client.acquire(both) as units:
        told["several"] = [[lease.pool, lease.units] for lease in units.grant.leases]

    try:
        with client.acquire("etl", 4, holder=holder("fails")):
            raise ValueError("planted")
    except ValueError as error:
        told["failed"] = [str(error), pool()]

    places = []
    with client.acquire("etl", 10):
        try:
            with client.acquire("etl", 5, min_units=5, wait=timedelta(seconds=1), on_wait=places.append):
                pass
        except NotAdmitted as error:
            told["late"] = [*told_of(error), error.place.position, places[0].reason, pool()]

    first = client.acquire("etl", 10).__enter__()
    threading.Thread(target=lambda: (until(lambda: pool()[1] == 1), first.release())).start()
    with client.acquire("etl", 6, min_units=6, wait=timedelta(minutes=5)) as units:
        told["waited"] = [units.grant.units, pool()]

    lost = threading.Event()
    try:
        with client.acquire("etl", 4, holder=holder("loses"), heartbeat=1, on_lost=lost.set) as units:
            take_away("loses")
            lost.wait(60)
            told["knows"] = units.is_lost
    except LeaseLost as error:
        told["lost"] = [*told_of(error), pool()]

    lost = threading.Event()
    try:
        with client.acquire(both, holder=holder("half"), heartbeat=1, on_lost=lost.set):
            take_away("half")
            lost.wait(60)
            until_it_beats("half", "erp")
    except LeaseLost as error:
        told["half"] = [*told_of(error), pool(), pool("erp")]

    with client.acquire("etl", 4, holder=holder("beats"), heartbeat=1):
        told["beats"] = until_it_beats()

    with Client(forgetful(), retry_for=30) as forgotten:
        with forgotten.acquire("etl", 4, holder=holder("forgotten")) as units:
            told["lost_answers"] = [units.grant.units, pool(), units.grant.leases[0].epoch]
        told["lost_release"] = pool()
        launched = forgotten.launch("good", {"day": "2026-11-16", "by": sys.argv[1]})
        told["lost_launch"] = forgotten.wait(launched.id, poll=0.2).status
        told["launched_once"] = len(watch.call("GET", "/api/v1/executions", instance=str(launched.instance))["items"])

    parameters = {"day": date(2026, 11, 15), "by": sys.argv[1]}
    launched = client.launch("good", parameters)
    told["job"] = [client.wait(launched.id, poll=0.2).status, client.find_execution("good", parameters).id == launched.id]
    for name, call in {
        "complete": lambda: client.launch("good", parameters),
        "bad_job": lambda: client.wait(client.launch("bad", {"by": sys.argv[1]}).id, poll=0.2),
        "no_pool": lambda: client.acquire("none", 1).__enter__(),
        "too_large": lambda: client.acquire("etl", 99, min_units=99).__enter__(),
    }.items():
        try:
            call()
        except tidemill.TidemillError as error:
            told[name] = told_of(error)
    slow = client.launch("slow", {"by": sys.argv[1]})
    client.stop(slow.id, reason="planted")
    try:
        client.wait(slow.id, poll=0.2)
    except JobFailed as error:
        told["stopped"] = error.execution.status


async def async_cases(client):
    async with client.acquire("etl", 16, min_units=2, hint=HINT, holder=holder("holds")) as units:
        told["held"] = [units.grant.units, units.parallel, units.hint, pool()]
    told["released"] = pool()

    both = [Ask("etl", units=3), Ask("erp", units=2)]
    async with client.acquire(both) as units:
        told["several"] = [[lease.pool, lease.units] for lease in units.grant.leases]

    try:
        async with client.acquire("etl", 4, holder=holder("fails")):
            raise ValueError("planted")
    except ValueError as error:
        told["failed"] = [str(error), pool()]

    places = []
    async with client.acquire("etl", 10):
        try:
            async with client.acquire("etl", 5, min_units=5, wait=timedelta(seconds=1), on_wait=places.append):
                pass
        except NotAdmitted as error:
            told["late"] = [*told_of(error), error.place.position, places[0].reason, pool()]

    first = await client.acquire("etl", 10).__aenter__()

    async def release():
        await asyncio.to_thread(until, lambda: pool()[1] == 1)
        await first.__aexit__(None, None, None)

    releasing = asyncio.create_task(release())
    async with client.acquire("etl", 6, min_units=6, wait=timedelta(minutes=5)) as units:
        told["waited"] = [units.grant.units, pool()]
    await releasing

    # A task that is cancelled while it waits leaves the queue.
    async with client.acquire("etl", 10):
        waiting = asyncio.create_task(client.acquire("etl", 6, min_units=6).__aenter__())
        await asyncio.to_thread(until, lambda: pool()[1] == 1)
        waiting.cancel()
        await asyncio.wait([waiting])
        told["cancelled"] = [waiting.cancelled(), pool()]

    try:
        async with client.acquire("etl", 4, holder=holder("loses"), heartbeat=1):
            await asyncio.to_thread(take_away, "loses")
            told["knows"] = True
            await asyncio.sleep(60)
            told["knows"] = False
    except LeaseLost as error:
        told["lost"] = [*told_of(error), pool()]

    try:
        async with client.acquire(both, holder=holder("half"), heartbeat=1):
            await asyncio.to_thread(take_away, "half")
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.to_thread(until_it_beats, "half", "erp")
    except LeaseLost as error:
        told["half"] = [*told_of(error), pool(), pool("erp")]

    async with client.acquire("etl", 4, holder=holder("beats"), heartbeat=1):
        told["beats"] = await asyncio.to_thread(until_it_beats)

    async with AsyncClient(forgetful(), retry_for=30) as forgotten:
        async with forgotten.acquire("etl", 4, holder=holder("forgotten")) as units:
            told["lost_answers"] = [units.grant.units, pool(), units.grant.leases[0].epoch]
        told["lost_release"] = pool()
        launched = await forgotten.launch("good", {"day": "2026-11-16", "by": sys.argv[1]})
        told["lost_launch"] = (await forgotten.wait(launched.id, poll=0.2)).status
        told["launched_once"] = len(watch.call("GET", "/api/v1/executions", instance=str(launched.instance))["items"])

    parameters = {"day": date(2026, 11, 15), "by": sys.argv[1]}
    launched = await client.launch("good", parameters)
    completed, found = await client.wait(launched.id, poll=0.2), await client.find_execution("good", parameters)
    told["job"] = [completed.status, found.id == launched.id]
    bad = await client.launch("bad", {"by": sys.argv[1]})
    for name, call in {
        "complete": client.launch("good", parameters),
        "bad_job": client.wait(bad.id, poll=0.2),
        "no_pool": client.acquire("none", 1).__aenter__(),
        "too_large": client.acquire("etl", 99, min_units=99).__aenter__(),
    }.items():
        try:
            await call
        except tidemill.TidemillError as error:
            told[name] = told_of(error)
    slow = await client.launch("slow", {"by": sys.argv[1]})
    await client.stop(slow.id, reason="planted")
    try:
        await client.wait(slow.id, poll=0.2)
    except JobFailed as error:
        told["stopped"] = error.execution.status


async def run_async():
    async with AsyncClient(URL) as client:
        await async_cases(client)


watch = Client(URL)
if sys.argv[1] == "sync":
    with Client(URL) as given:
        sync_cases(given)
else:
    asyncio.run(run_async())
try:
    Client("http://127.0.0.1:1", retry_for=0.1).execution(1)
except Unreachable as error:
    told["unreachable"] = told_of(error)
told["left"] = [pool(), pool("erp")]
print(json.dumps(told))
