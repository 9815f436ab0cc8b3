"""DAGs that use the provider in every way. The `end` of a run's configuration says how its work ends."""

import os
import signal
import time

from tidemill import Client
from tidemill_airflow.operators import TidemillAcquireOperator, TidemillJobOperator
from tidemill_airflow.sensors import TidemillJobSensor
from tidemill_airflow.units import tidemill_units

try:
    from airflow.sdk import DAG, task
except ImportError:
    from airflow.decorators import task
    from airflow.models.dag import DAG

HINT = "/*+ PARALLEL(16) FULL(A) */"
SIGNALS = {"sigterm": signal.SIGTERM, "sigkill": signal.SIGKILL}


def work(dag_run, parallel, hint):
    """Tells what is held, then ends as it was asked to."""
    with Client() as client:
        in_use = client.call("GET", "/api/v1/pools/etl")["in_use"]
    end = dag_run.conf["end"]
    if end in SIGNALS:
        os.kill(os.getpid(), SIGNALS[end])
        time.sleep(60)
    if end != "well":
        raise RuntimeError("planted")
    return [parallel, hint, in_use]


with DAG("chain", schedule=None) as chain:
    acquire = TidemillAcquireOperator(
        task_id="acquire", tidemill_pool="etl", units="{{ 16 }}", min_units=2, hint=HINT, table="SALES_ORDER"
    )

    @task
    def l0(grant, dag_run=None):
        return work(dag_run, grant["parallel"], grant["hint"])

    @task
    def l1():
        pass

    release = acquire.release()
    first = l0(acquire.output)
    acquire >> first >> release
    first >> l1()

with DAG("inside", schedule=None) as inside:

    @task.tidemill(tidemill_pool="etl", units=8, min_units=8)
    def decorated(granted=None, dag_run=None):
        return work(dag_run, granted.parallel, granted.hint)

    decorated()

with DAG("partly", schedule=None) as partly:

    @task
    def block(dag_run=None):
        with tidemill_units("etl", 4, hint="/*+ PARALLEL(4) */") as units:
            return work(dag_run, units.parallel, units.hint)

    block()

with DAG("twice", schedule=None) as twice:

    @task
    def blocks():
        """Each block has units of its own, within another one and after it."""

        def in_use():
            with Client() as client:
                return client.call("GET", "/api/v1/pools/etl")["in_use"]

        with tidemill_units("etl", 3):
            with tidemill_units("etl", 2):
                both = in_use()
            outer = in_use()
        with tidemill_units("etl", 4):
            return [both, outer, in_use()]

    blocks()

with DAG("jobs", schedule=None) as jobs:
    day = "{{ dag_run.conf['day'] }}"
    good = TidemillJobOperator(task_id="good", job="good", parameters={"day": day}, poll_seconds=0.2)
    seen = TidemillJobSensor(task_id="seen", job="good", parameters={"day": day}, poke_interval=1)
    by_id = TidemillJobSensor(
        task_id="by_id", execution_id="{{ ti.xcom_pull(task_ids='good')['id'] }}", deferrable=False, poke_interval=1
    )
    bad = TidemillJobOperator(task_id="bad", job="bad", parameters={"day": day}, poll_seconds=0.2)
    good >> [seen, by_id]

with DAG("stopped", schedule=None) as stopped:
    TidemillJobOperator(task_id="slow", job="slow", parameters={"day": day}, poll_seconds=0.2, deferrable=False)

with DAG("free", schedule=None) as free:

    @task
    def nothing():
        pass

    nothing()
