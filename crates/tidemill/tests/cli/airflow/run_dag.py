"""Runs a DAG to its end with `dag.test()`, on an Airflow that exists only for this run.

    python run_dag.py FILE DAG_ID [--fail-emr]

A file that runs itself imports this module before Airflow, which reads its settings when it is imported. The last line
on standard output is JSON: the state of the run and of each task, the order in which the tasks ended, what each returned, and the seconds
that all of it took.
"""

import importlib.util
import json
import os
import sys
import tempfile
import time

# Removed when the program ends.
home = tempfile.TemporaryDirectory(prefix="tidemill-airflow-")
os.environ.update(
    {
        "AIRFLOW_HOME": home.name,
        "AIRFLOW__CORE__DAGS_FOLDER": home.name,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home.name}/airflow.db",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        # Empty: who signs, and with which endpoint, is what the environment says.
        "AIRFLOW_CONN_AWS_DEFAULT": "aws://",
    }
)


def run(dag):
    """Runs the DAG and tells how it ended."""
    from airflow.utils.db import initdb

    initdb()
    start = time.monotonic()
    ended = dag.test(run_conf={"fail_emr": "--fail-emr" in sys.argv})
    tasks = ended.get_task_instances()
    # `dag.test()` notes no beginnings.
    in_order = sorted((task for task in tasks if task.end_date), key=lambda task: task.end_date)
    told = {
        "run": str(ended.state),
        "tasks": {task.task_id: str(task.state) for task in tasks},
        "order": [task.task_id for task in in_order],
        "returned": {task.task_id: task.xcom_pull(task_ids=task.task_id) for task in tasks},
        "seconds": round(time.monotonic() - start, 1),
    }
    print(json.dumps(told), flush=True)


def load(file, dag_id):
    """The DAG of this name in a file that knows nothing of us."""
    found = importlib.util.spec_from_file_location("given", file)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    from airflow.models.dag import DAG

    return next(dag for dag in vars(module).values() if isinstance(dag, DAG) and dag.dag_id == dag_id)


if __name__ == "__main__":
    run(load(sys.argv[1], sys.argv[2]))
