"""Runs `provider_dags.py` in a whole Airflow with one worker slot, against the server at TIDEMILL_CLIENT_URL.

    python provider_site.py

Prints one JSON object: whether another task ran while one waited for units, and what was left when tasks were ended.
"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import run_dag  # Before Airflow, whose settings it makes.

URL, HOME = os.environ["TIDEMILL_CLIENT_URL"], Path(run_dag.home.name)
DAGS = HOME / "dags"
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
os.environ.update(
    {
        "AIRFLOW_CONN_TIDEMILL_DEFAULT": json.dumps({"conn_type": "tidemill", "host": URL}),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__PARALLELISM": "1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__API_AUTH__JWT_SECRET": "s" * 64,
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "300",
    }
)
DAGS.mkdir()
shutil.copy(Path(__file__).parent / "provider_dags.py", DAGS)

import httpx
from airflow.api.common.trigger_dag import trigger_dag
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from tidemill import Client
from tidemill_airflow.compat import IS_AIRFLOW_3

PARTS = {"scheduler": ["--skip-serve-logs"], "triggerer": ["--skip-serve-logs"]}
if IS_AIRFLOW_3:
    PARTS |= {"api-server": [], "dag-processor": []}
else:
    # One task at a time, each in a process of its own.
    os.environ["AIRFLOW__CORE__EXECUTOR"] = "SequentialExecutor"
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
watch = Client(URL)


def pool():
    found = watch.call("GET", "/api/v1/pools/etl")
    return [found["in_use"], found["waiting"]]


def until(what, look):
    for _ in range(2_400):
        if found := look():
            return found
        for part in parts:
            assert part.poll() is None, f"a part of Airflow ended: {part.args}"
        time.sleep(0.2)
    raise AssertionError(f"in vain: {what}; the pool has {pool()}")


def start(dag_id, **conf):
    """Starts a run of a DAG."""

    def is_there():
        with create_session() as session:
            return session.get(DagModel, dag_id) is not None

    until(f"{dag_id} is parsed", is_there)
    run_id = f"run-{dag_id}-{conf.get('end', 'free')}"
    more = {}
    if IS_AIRFLOW_3:
        from airflow.utils.types import DagRunTriggeredByType

        more["triggered_by"] = DagRunTriggeredByType.TEST
    trigger_dag(dag_id, run_id=run_id, conf=conf, **more)
    return run_id


def state(run_id, task_id=None):
    with create_session() as session:
        if task_id is None:
            found = session.query(DagRun.state).filter_by(run_id=run_id)
        else:
            found = session.query(TaskInstance.state).filter_by(run_id=run_id, task_id=task_id)
        return str(found.scalar() or "").removeprefix("TaskInstanceState.").lower()


def mark_failed(dag_id, run_id, task_id):
    """As a person does in the dashboard."""
    if IS_AIRFLOW_3:
        base = f"http://127.0.0.1:{port}"
        token = httpx.get(f"{base}/auth/token").raise_for_status().json()["access_token"]
        url = f"{base}/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        headers = {"Authorization": f"Bearer {token}"}
        httpx.patch(url, json={"new_state": "failed"}, headers=headers, timeout=60).raise_for_status()
        return
    with create_session() as session:
        session.query(TaskInstance).filter_by(run_id=run_id, task_id=task_id).one().set_state("failed", session)


def has_ended(run_id):
    return until(f"{run_id} ends", lambda: (now := state(run_id)) in ("success", "failed") and now)


initdb()
# Several processes share the file; otherwise who reads it keeps the others from writing.
sqlite3.connect(HOME / "airflow.db").execute("pragma journal_mode = wal")
command = [sys.executable, "-m", "airflow"]
parts = [
    subprocess.Popen([*command, part, *more], stdout=(HOME / f"{part}.log").open("w"), stderr=subprocess.STDOUT)
    for part, more in PARTS.items()
]
told = {}
try:
    full = watch.acquire("etl", 10).__enter__()
    waiting = start("chain", end="well")
    until("acquire waits for units", lambda: state(waiting, "acquire") == "deferred" and pool() == [10, 1])
    # The only slot is free, or this never ends.
    told["another_task"] = [has_ended(start("free")), state(waiting, "acquire"), pool()]
    mark_failed("chain", waiting, "acquire")
    until("it leaves the queue", lambda: pool() == [10, 0])
    told["ended_in_the_queue"] = [has_ended(waiting), pool()]
    full.release()
    for end in ("sigkill", "sigterm"):
        told[end] = {}
        for dag_id, task_id in (("inside", "decorated"), ("partly", "block")):
            run_id = start(dag_id, end=end)
            ended = has_ended(run_id)
            until("the units of killed tasks are released", lambda: pool() == [0, 0])
            told[end][dag_id] = [ended, state(run_id, task_id), pool()]
    run_id = start("chain", end="sigkill")
    told["chain"] = [has_ended(run_id), state(run_id, "l0"), state(run_id, "release"), pool()]
except AssertionError:
    for part in PARTS:
        print(part, (HOME / f"{part}.log").read_text()[-6000:], file=sys.stderr)
    raise
finally:
    for part in parts:
        part.send_signal(signal.SIGTERM)
    for part in parts:
        try:
            part.wait(60)
        except subprocess.TimeoutExpired:
            part.kill()
print(json.dumps(told), flush=True)
