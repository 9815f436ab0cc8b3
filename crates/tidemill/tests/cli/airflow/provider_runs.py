"""Runs the DAGs of `provider_dags.py`, and one of an example, against the server at TIDEMILL_CLIENT_URL.

    python provider_runs.py EXAMPLE_FILE EXAMPLE_DAG_ID

The server has the pools `etl` (10 units) and `ADW`, and the jobs `good`, `bad` and `slow`. Prints one JSON object: what
came of each run, by its name.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import run_dag  # Before Airflow, whose settings it makes.

URL = os.environ["TIDEMILL_CLIENT_URL"]
os.environ["AIRFLOW_CONN_TIDEMILL_DEFAULT"] = json.dumps({"conn_type": "tidemill", "host": URL})
# Airflow 3 runs only what is in its folder.
HERE, HOME = Path(__file__).parent, Path(run_dag.home.name)
for file in (HERE / "provider_dags.py", Path(sys.argv[1])):
    shutil.copy(file, HOME)
sys.path.insert(0, run_dag.home.name)

from airflow.models.dagrun import DagRun
from airflow.providers_manager import ProvidersManager
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from tidemill import Client
from tidemill_airflow.compat import IS_AIRFLOW_3, AirflowTaskTerminated
from tidemill_airflow.hooks import TidemillHook
from tidemill_airflow.links import TidemillExecutionLink
from tidemill_airflow.triggers import TidemillJobTrigger, TidemillUnitsTrigger

started = time.monotonic()
watch = Client(URL)
deferred = []


def pool(name="etl"):
    found = watch.call("GET", f"/api/v1/pools/{name}")
    return [found["in_use"], found["waiting"]]


def until(look):
    for _ in range(3_000):
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("in vain")


def waits_in_triggerer(event):
    """Notes who waited, and that nothing but a place in the queue was held meanwhile."""

    async def noted(self):
        deferred.append(type(self).__name__)
        return await event(self)

    return noted


for kind in (TidemillUnitsTrigger, TidemillJobTrigger):
    kind.event = waits_in_triggerer(kind.event)


def run(dag, is_full=False, **conf):
    """A run of a DAG. When the pool is full, its units are released once somebody waits for them."""
    deferred.clear()
    releasing = None
    if is_full:
        units = watch.acquire("etl", 10).__enter__()
        releasing = threading.Thread(target=lambda: (until(lambda: pool()[1] > 0), units.release()))
        releasing.start()
    try:
        ended = dag.test(run_conf=conf)
    except AirflowTaskTerminated:
        # Airflow 2 lets it end the process of the task, which here is this one.
        with create_session() as session:
            ended = session.query(DagRun).filter_by(dag_id=dag.dag_id).order_by(DagRun.id.desc()).first()
    if releasing:
        releasing.join()
    tasks = ended.get_task_instances()
    return {
        "run": str(ended.state),
        "tasks": {task.task_id: str(task.state) for task in tasks},
        "returned": {task.task_id: task.xcom_pull(task_ids=task.task_id) for task in tasks},
        "deferred": sorted(deferred),
        "links": {task.task_id: link_of(task) for task in tasks},
        "left": pool(),
    }


def link_of(task):
    """The page behind the button in the dashboard of Airflow."""
    link = TidemillExecutionLink()
    if IS_AIRFLOW_3:
        return task.xcom_pull(task_ids=task.task_id, key=link.xcom_key)
    return link.get_link(None, ti_key=task.key)


def stop_when_it_runs(job):
    """Ends this process, as Airflow ends a task, once the job runs."""

    def is_running():
        return watch.call("GET", "/api/v1/executions", job=job, status="STARTED")["items"]

    until(is_running)
    os.kill(os.getpid(), signal.SIGTERM)


def killed(dag):
    """A run whose process is killed while it holds units."""
    child = os.fork()
    if child == 0:
        dag.test(run_conf={"end": "sigkill"})
        os._exit(0)
    _, status = os.waitpid(child, 0)
    until(lambda: pool() == [0, 0])
    return [os.WTERMSIG(status), pool()]


def stopped_by_trigger():
    """What Airflow does when a person ends a task that waits for its job."""
    launched = watch.launch("slow", {"day": "trigger"})
    trigger = TidemillJobTrigger("tidemill_default", launched.id, stop_on_kill=True)
    kind, fields = trigger.serialize()
    asyncio.run(TidemillJobTrigger(**fields).on_kill())
    return [kind, until(lambda: (found := watch.execution(launched.id)).is_ended and found.status)]


initdb()
import provider_dags as dags

# Before any thread runs, which a fork does not take along.
kill = killed(dags.inside)
provider = ProvidersManager()
told = {
    "provider": "airflow-provider-tidemill" in provider.providers,
    "killed": kill,
    "decorator": "tidemill" in provider.taskflow_decorators,
    "hook": provider.hooks["tidemill"].hook_name,
    "links": [link for link in provider.extra_links_class_names if "tidemill" in link],
    "connection": TidemillHook().test_connection()[0],
    "chain_well": run(dags.chain, is_full=True, end="well"),
    "chain_raises": run(dags.chain, end="raise"),
    "inside_well": run(dags.inside, is_full=True, end="well"),
    "inside_raises": run(dags.inside, end="raise"),
    "inside_sigterm": run(dags.inside, end="sigterm"),
    "partly_well": run(dags.partly, end="well"),
    "partly_sigterm": run(dags.partly, end="sigterm"),
    "example": run(run_dag.load(HOME / Path(sys.argv[1]).name, sys.argv[2]), fail_emr=False),
    "example_left": pool("ADW"),
    "jobs": run(dags.jobs, day="2026-11-15"),
}
threading.Thread(target=stop_when_it_runs, args=("slow",), daemon=True).start()
told["stopped"] = run(dags.stopped, day="2026-11-15")
told["slow"] = watch.find_execution("slow").status
told["stopped_by_trigger"] = stopped_by_trigger()
told["seconds"] = round(time.monotonic() - started, 1)
print(json.dumps(told), flush=True)
