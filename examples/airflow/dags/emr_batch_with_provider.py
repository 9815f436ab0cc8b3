"""The nightly batch of `emr_batch.py` with the provider of Tidemill, for Airflow 2.10 and 3.

While `acquire` waits for connections it occupies no worker slot.
"""

from datetime import timedelta

from tidemill_airflow.operators import TidemillAcquireOperator

try:
    from airflow.sdk import DAG, task
except ImportError:  # Airflow 2
    from airflow.decorators import task
    from airflow.models.dag import DAG


@task
def start():
    """The batch spec. Yours comes from S3."""
    return {
        "athenaMetaData": {"srcDbId": 4, "srcDbTp": "oracle", "tableName": "SALES_ORDER"},
        "rsrcSpecData": {"hint": "/*+ PARALLEL(8) FULL(A) */", "prttCnt": 3},
    }


@task
def run_step(level, granted, dag_run=None):
    """A placeholder for the EMR step. Pass what it returns to `add_job_flow_steps`."""
    if dag_run.conf.get("fail_emr"):
        raise RuntimeError(f"the step {level} failed, as it was asked to")
    return {"level": level, "hint_override": granted["hint"], "parallel": granted["parallel"]}


@task
def done():
    pass


with DAG("emr_batch_with_provider", schedule=None) as dag:
    spec = start()
    acquire = TidemillAcquireOperator(
        task_id="acquire",
        tidemill_pool="ADW",
        hint="{{ ti.xcom_pull(task_ids='start')['rsrcSpecData']['hint'] }}",
        table="{{ ti.xcom_pull(task_ids='start')['athenaMetaData']['tableName'] }}",
        wait=timedelta(hours=2),
    )
    release = acquire.release()
    l0 = run_step.override(task_id="l0")("L0", acquire.output)
    l1 = run_step.override(task_id="l1")("L1", acquire.output)
    spec >> acquire >> l0 >> release
    # `done` does not follow the release, so the run fails if an EMR task fails.
    l0 >> l1 >> done()
