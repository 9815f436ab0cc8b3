"""The nightly batch of `emr_batch.py` with the provider of Tidemill, for Airflow 2.10 and 3.

While `acquire` waits for connections it occupies no worker slot.
"""

from datetime import timedelta

from airflow import DAG
from airflow.decorators import task
from airflow.operators.empty import EmptyOperator
from tidemill_airflow.operators import TidemillAcquireOperator


@task(multiple_outputs=True)
def start():
    """What Tidemill needs of the batch spec. Yours comes from S3."""
    return {"hint": "/*+ PARALLEL(8) FULL(A) */", "table": "SALES_ORDER"}


@task
def run_step(level, granted, dag_run=None):
    """A placeholder for the EMR step. Pass what it returns to `add_job_flow_steps`."""
    if dag_run.conf.get("fail_emr"):
        raise RuntimeError(f"the step {level} failed, as it was asked to")
    return {"level": level, "hint_override": granted["hint"], "parallel": granted["parallel"]}


with DAG("emr_batch_with_provider", schedule=None) as dag:
    spec = start()
    acquire = TidemillAcquireOperator(
        task_id="acquire", tidemill_pool="ADW", hint=spec["hint"], table=spec["table"], wait=timedelta(hours=2)
    )
    l0 = run_step.override(task_id="l0")("L0", acquire.output)
    l0 >> acquire.release()
    # `done` does not follow the release, so the run fails if an EMR task fails.
    l0 >> run_step.override(task_id="l1")("L1", acquire.output) >> EmptyOperator(task_id="done")
