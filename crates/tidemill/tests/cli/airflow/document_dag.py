"""A DAG with the tasks that the EMR Batch Agent's document gives to its readers, as it gives them.

    python document_dag.py [--fail-emr]

What stands between the two lines is the document's, to the letter. Ours is what surrounds it: the import of boto3 that
it forgets, the batch spec, and an EMR task that asks how much of the pool is in use and then succeeds or fails.
"""

import os
import urllib.request

import run_dag  # Before Airflow, whose settings it makes.

import boto3
from airflow import DAG
from airflow.operators.empty import EmptyOperator
from airflow.utils.task_group import TaskGroup

# ---- the document -----------------------------------------------------------------------------------------------
from airflow.decorators import task
from airflow.providers.amazon.aws.operators.lambda_function import LambdaInvokeFunctionOperator
import json
import time

# Connection 획득 Task
@task
def acquire_connection(**context):
    """
    EMR Batch Agent에 Connection 예약 요청.
    허용될 때까지 대기하거나, 다운그레이드된 hint를 반환.
    """
    ti = context['ti']
    spec = ti.xcom_pull(task_ids='start_task', key='batch_spec')

    src_db_id = spec['athenaMetaData']['srcDbId']
    hint = spec['rsrcSpecData'].get('hint', '')
    parallel = parse_parallel_hint(hint)  # "/*+ PARALLEL(8) */" → 8

    lambda_client = boto3.client('lambda')

    max_retries = 20
    for attempt in range(max_retries):
        response = lambda_client.invoke(
            FunctionName='emr-batch-agent',
            Payload=json.dumps({
                'action': 'acquire',
                'dag_id': context['dag'].dag_id,
                'dag_run_id': context['run_id'],
                'src_db_id': src_db_id,
                'parallel_hint': parallel,
                'table_name': spec['athenaMetaData'].get('tableName', 'unknown')
            })
        )

        result = json.loads(response['Payload'].read())

        if result['allowed']:
            # 다운그레이드된 경우 XCom에 저장
            if result.get('downgraded'):
                ti.xcom_push(key='adjusted_parallel', value=result['adjusted_parallel'])
            return result

        # 대기 후 재시도
        wait_seconds = result.get('wait_seconds', 30)
        time.sleep(wait_seconds)

    raise Exception(f"Connection 획득 실패: {max_retries}회 시도 후 타임아웃")


# Connection 반환 Task
release_connection = LambdaInvokeFunctionOperator(
    task_id='release_connection',
    function_name='emr-batch-agent',
    payload=json.dumps({
        'action': 'release',
        'dag_id': '{{ dag.dag_id }}',
        'dag_run_id': '{{ run_id }}',
        'src_db_id': "{{ ti.xcom_pull(task_ids='start_task', key='batch_spec')['athenaMetaData']['srcDbId'] }}"
    }),
    trigger_rule='all_done',  # 성공/실패 상관없이 항상 반환
)


def parse_parallel_hint(hint: str) -> int:
    """
    Oracle Parallel 힌트에서 숫자 추출.

    Examples:
        "/*+ PARALLEL(8) FULL(A) */" → 8
        "/*+ PARALLEL(16) */" → 16
        "" or None → 1
    """
    import re
    if not hint:
        return 1

    match = re.search(r'PARALLEL\s*\(\s*(\d+)\s*\)', hint, re.IGNORECASE)
    if match:
        return int(match.group(1))
    return 1
# ---- ours -------------------------------------------------------------------------------------------------------

SPEC = {
    "athenaMetaData": {"athenaMetaId": 323, "srcDbId": 4, "srcDbTp": "oracle", "tableName": "SALES_ORDER"},
    "rsrcSpecData": {"rsrcSpecId": 76, "athenaMetaId": 323, "hint": "/*+ PARALLEL(8) FULL(A) */", "prttCnt": 3},
}


@task
def start_task(ti=None):
    ti.xcom_push(key="batch_spec", value=SPEC)


@task
def l0(dag_run=None):
    with urllib.request.urlopen(os.environ["AWS_ENDPOINT_URL_LAMBDA"] + "/status") as answer:
        usage = json.load(answer)["sources"]["4"]["current_usage"]
    if dag_run.conf["fail_emr"]:
        raise RuntimeError("planted: the EMR step failed")
    return usage


with DAG("batch_001", schedule=None) as dag:
    delay_task = EmptyOperator(task_id="delay_task")
    trigger_task = EmptyOperator(task_id="trigger_task")
    with TaskGroup("emr") as emr_taskgroup:
        l0() >> EmptyOperator(task_id="l1")
    done_api = EmptyOperator(task_id="done_api")
    start_task() >> acquire_connection() >> delay_task >> trigger_task >> emr_taskgroup >> release_connection >> done_api

if __name__ == "__main__":
    run_dag.run(dag)
