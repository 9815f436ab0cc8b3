"""Runs the DAGs of `provider_dags.py`, and one of an example, against the server at TIDEMILL_CLIENT_URL.

    python provider_runs.py EXAMPLE_FILE EXAMPLE_DAG_ID

The server has the pools `etl` (10 units) and `ADW`, and the jobs `good`, `bad` and `slow`. Prints one JSON object: what
came of each run, by its name.
"""

import asyncio
import json
import os
import runpy
import shutil
import signal
import sys
import threading
import time
import types
import unittest.mock
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
import tidemill_airflow.compat
from tidemill import ApiError, Client
from tidemill_airflow.compat import IS_AIRFLOW_3, AirflowTaskTerminated
from tidemill_airflow.hooks import TidemillHook
from tidemill_airflow.links import TidemillExecutionLink
from tidemill_airflow.operators import TidemillJobOperator
from tidemill_airflow.sensors import TidemillJobSensor
from tidemill_airflow.triggers import TidemillJobTrigger, TidemillUnitsTrigger

started = time.monotonic()
watch = Client(URL)
deferred, states, lapses = [], [], []


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
        told_of = await event(self)
        if isinstance(self, TidemillUnitsTrigger):
            states.append(watch.call("GET", f"/api/v1/requests/{self.place['id']}")["items"][0]["state"])
            if lapses:
                lapses.pop()(self.place["id"])
        return told_of

    return noted


def lapse(request):
    """What happens if no worker slot becomes free in time: others have the units until the task waits again."""
    watch.call("DELETE", f"/api/v1/requests/{request}")
    release_when_somebody_waits()


def release_when_somebody_waits():
    units = watch.acquire("etl", 10).__enter__()
    releasing = threading.Thread(target=lambda: (until(lambda: pool()[1] > 0), units.release()))
    releasing.start()
    return releasing


for kind in (TidemillUnitsTrigger, TidemillJobTrigger):
    kind.event = waits_in_triggerer(kind.event)


def run(dag, is_full=False, **conf):
    """A run of a DAG. When the pool is full, its units are released once somebody waits for them."""
    deferred.clear()
    states.clear()
    releasing = release_when_somebody_waits() if is_full else None
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
        "states": list(states),
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


def retried_launches():
    """A retry finds the execution of an earlier try, whether it runs or has completed."""
    good = TidemillJobOperator(task_id="good", job="good", parameters={"day": "retried"})
    slow = TidemillJobOperator(task_id="slow", job="slow", parameters={"day": "retried"})
    completed = watch.wait(watch.launch("good", {"day": "retried"}).id, poll=0.2)
    running = watch.launch("slow", {"day": "retried"})
    found = [good._launch(watch, "a", True).id == completed.id, slow._launch(watch, "b", True).id == running.id]
    watch.stop(running.id)
    try:
        good._launch(watch, "c", False)
    except ApiError as refused:
        found.append(refused.code)
    # An execution that is not there must not hide what ends the task.
    slow.execution_id = 999_999_999
    slow.on_kill()
    return found


def cancelled_trigger():
    """An error of the check of the state leaves a cancellation what it is."""
    trigger = TidemillJobTrigger("tidemill_default", 1)

    async def fails():
        raise RuntimeError("planted")

    async def first():
        await anext(trigger.run())

    async def cancel():
        task = asyncio.create_task(first())
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    trigger._is_task_ended, trigger.event = fails, lambda: asyncio.sleep(60)
    return asyncio.run(cancel())


def sensor_timeout():
    sensor = TidemillJobSensor(task_id="sensor", job="good", timeout=60)
    sensor.poke, told_of = lambda _: False, []
    sensor.defer = lambda **more: told_of.append(more["timeout"].total_seconds())
    sensor.execute({})
    return told_of


def names_of_airflow_3_0():
    """Two names that the provider needs were elsewhere before Airflow 3.2."""
    if not IS_AIRFLOW_3:
        return ["BaseHook", "AirflowTaskTerminated"]
    import airflow.sdk

    class Before(types.ModuleType):
        __path__ = airflow.sdk.__path__

        def __getattr__(self, name):
            if name == "BaseHook":
                raise AttributeError(name)
            return getattr(airflow.sdk, name)

    hooks, errors = types.ModuleType("airflow.hooks.base"), types.ModuleType("airflow.exceptions")
    hooks.BaseHook, errors.AirflowTaskTerminated = airflow.sdk.BaseHook, AirflowTaskTerminated
    before = {
        "airflow.sdk": Before("airflow.sdk"),
        "airflow.sdk.exceptions": types.ModuleType("airflow.sdk.exceptions"),
        "airflow.hooks.base": hooks,
        "airflow.exceptions": errors,
    }
    with unittest.mock.patch.dict(sys.modules, before):
        found = runpy.run_path(tidemill_airflow.compat.__file__)
    return [found[name].__name__ for name in ("BaseHook", "AirflowTaskTerminated")]


def test_without_server():
    os.environ["AIRFLOW_CONN_NOWHERE"] = json.dumps({"conn_type": "tidemill", "host": "http://127.0.0.1:1"})
    begun = time.monotonic()
    return [TidemillHook("nowhere").test_connection()[0], time.monotonic() - begun < 20]


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
    "twice": run(dags.twice, end="well"),
    "retried": retried_launches(),
    "cancelled_trigger": cancelled_trigger(),
    "sensor_timeout": sensor_timeout(),
    "names_of_airflow_3_0": names_of_airflow_3_0(),
    "test_without_server": test_without_server(),
    "inside_raises": run(dags.inside, end="raise"),
    "inside_sigterm": run(dags.inside, end="sigterm"),
    "partly_well": run(dags.partly, end="well"),
    "partly_sigterm": run(dags.partly, end="sigterm"),
    "example": run(run_dag.load(HOME / Path(sys.argv[1]).name, sys.argv[2]), fail_emr=False),
    "example_left": pool("ADW"),
    "jobs": run(dags.jobs, day="2026-11-15"),
}
lapses.append(lapse)
told["inside_lapsed"] = run(dags.inside, is_full=True, end="well")
threading.Thread(target=stop_when_it_runs, args=("slow",), daemon=True).start()
told["stopped"] = run(dags.stopped, day="2026-11-15")
told["slow"] = watch.find_execution("slow").status
told["stopped_by_trigger"] = stopped_by_trigger()
told["seconds"] = round(time.monotonic() - started, 1)
print(json.dumps(told), flush=True)
