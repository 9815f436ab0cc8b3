"""A nightly batch that requests connections of its source database from Tidemill before Spark opens them.

`emr_batch` holds the connections during L0, the only part that reads the source. `emr_batch_in_the_documents_order`
holds them from before the delay until after L1. In both DAGs, a failed EMR task fails the run, and all connections are
released.
"""

import json
import time

import boto3
from airflow.decorators import task
from airflow.exceptions import AirflowException, AirflowTaskTimeout
from airflow.models.dag import DAG
from airflow.operators.empty import EmptyOperator
from airflow.providers.amazon.aws.operators.lambda_function import LambdaInvokeFunctionOperator
from airflow.utils.task_group import TaskGroup

AGENT = "emr-batch-agent"
HOLDER = {"dag_id": "{{ dag.dag_id }}", "dag_run_id": "{{ run_id }}"}
SOURCE = "{{ ti.xcom_pull(task_ids='start')['athenaMetaData']['srcDbId'] }}"
PATIENCE_SECONDS = 2 * 60 * 60


@task
def start():
    """The batch spec. Yours comes from S3."""
    return {
        "athenaMetaData": {"srcDbId": 4, "srcDbTp": "oracle", "tableName": "SALES_ORDER"},
        "rsrcSpecData": {"hint": "/*+ PARALLEL(8) FULL(A) */", "prttCnt": 3},
    }


@task
def acquire(spec, dag=None, run_id=None):
    """Waits for connections, and returns how many were granted and the hint to use."""
    client = boto3.client("lambda")

    def ask(action):
        # Send the whole spec. Tidemill computes the number of connections from its hint and its partitions.
        request = {"action": action, "dag_id": dag.dag_id, "dag_run_id": run_id, "batch_spec": spec}
        return json.load(client.invoke(FunctionName=AGENT, Payload=json.dumps(request))["Payload"])

    give_up = time.monotonic() + PATIENCE_SECONDS
    try:
        while time.monotonic() < give_up:
            answer = ask("acquire")
            if answer.get("allowed"):
                return answer
            if "wait_seconds" not in answer:
                raise AirflowException(f"waiting does not help: {answer}")
            time.sleep(answer["wait_seconds"])
        raise AirflowException(f"no connections within {PATIENCE_SECONDS} seconds")
    except (Exception, AirflowTaskTimeout):
        # The teardown runs only if `acquire` succeeded. A failed `acquire` releases its units and leaves the queue here,
        # but not when Airflow ends the task: another attempt may then hold the units that this one would release.
        ask("release")
        raise


@task
def run_step(level, spec, granted, dag_run=None):
    """A placeholder for the EMR step. Pass what it returns to `add_job_flow_steps`."""
    if dag_run.conf.get("fail_emr"):
        raise AirflowException(f"the step {level} failed, as it was asked to")
    hint = granted.get("hint_override") or spec["rsrcSpecData"].get("hint", "")
    return {"level": level, "hint_override": hint, "parallel": granted.get("granted_parallel")}


def emr_batch(dag_id):
    with DAG(dag_id, schedule=None) as dag:
        spec = start()
        granted = acquire(spec)
        delay, trigger = EmptyOperator(task_id="delay"), EmptyOperator(task_id="trigger")
        with TaskGroup("emr"):
            l0 = run_step.override(task_id="l0")("L0", spec, granted)
            l1 = EmptyOperator(task_id="l1")
        payload = json.dumps({"action": "release", **HOLDER, "src_db_id": SOURCE})
        release = LambdaInvokeFunctionOperator(task_id="release", function_name=AGENT, payload=payload)
        release.as_teardown(setups=granted)
        # `done` also follows L1 directly, so the run fails if an EMR task fails.
        l0 >> l1 >> EmptyOperator(task_id="done")
        if dag_id == "emr_batch":
            spec >> delay >> trigger >> granted >> l0 >> release
        else:
            spec >> granted >> delay >> trigger >> l0
            l1 >> release >> dag.get_task("done")
    return dag


just_for_l0 = emr_batch("emr_batch")
in_the_documents_order = emr_batch("emr_batch_in_the_documents_order")
