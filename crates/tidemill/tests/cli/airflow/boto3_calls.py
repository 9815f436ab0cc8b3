"""Calls the Lambda endpoint at AWS_ENDPOINT_URL_LAMBDA with the real boto3, in every way that its callers do.

Prints one JSON object: what came of each call, by its name.
"""

import base64
import json
import os
import socket
import threading
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

AGENT = "emr-batch-agent"
ARN = f"arn:aws:lambda:ap-northeast-2:123456789012:function:{AGENT}"


def request(action, run_id="run-1", **more):
    holder = {"dag_id": "batch_001", "dag_run_id": run_id, "src_db_id": 4}
    return {"action": action, **holder, **more}


def acquire(run_id="run-1", parallel=8):
    return request("acquire", run_id, parallel_hint=parallel, table_name="SALES_ORDER")


def release(run_id="run-1"):
    # The document's release sends the number as a text.
    return request("release", run_id, src_db_id="4")


def call(client, payload, name=AGENT, **more):
    """What the caller sees, without what differs from run to run."""
    if payload is not None:
        more["Payload"] = payload if isinstance(payload, (bytes, str)) else json.dumps(payload)
    try:
        answer = client.invoke(FunctionName=name, **more)
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        return {"status": status, "error": error.response["Error"]["Code"], "class": type(error).__name__}
    except BotoCoreError as error:
        return {"class": type(error).__name__, "message": str(error)}
    body = answer["Payload"].read()
    told = {
        "status": answer["StatusCode"],
        "version": answer.get("ExecutedVersion"),
        "function_error": answer.get("FunctionError"),
        "has_request_id": bool(answer["ResponseMetadata"].get("RequestId")),
        "payload": json.loads(body) if body else None,
    }
    if "LogResult" in answer:
        told["log_bytes"] = len(base64.b64decode(answer["LogResult"], validate=True))
    return told


class Forgetful(threading.Thread):
    """Stands before the server and loses every other answer, the first to begin with: the connection ends instead.

    It keeps no connection for a second request.
    """

    def __init__(self, url):
        super().__init__(daemon=True)
        self.server = (urlsplit(url).hostname, urlsplit(url).port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d%s" % (self.listener.getsockname()[1], urlsplit(url).path)
        self.invocations, self.answers = [], []

    def run(self):
        while True:
            caller, _ = self.listener.accept()
            with caller:
                head, body = message(caller)
                self.invocations.append(header(head, "amz-sdk-invocation-id"))
                with socket.create_connection(self.server) as server:
                    server.sendall(head + body)
                    answer = message(server)
                self.answers.append(answer[1].decode())
                if len(self.answers) % 2 == 0:
                    caller.sendall(b"".join(answer))


def message(stream):
    """The head and the body of one HTTP message that says its length."""
    text = b""
    while b"\r\n\r\n" not in text:
        more = stream.recv(65536)
        if not more:
            raise ConnectionError(f"it ended within the head: {text!r}")
        text += more
    head, body = text.split(b"\r\n\r\n", 1)
    head += b"\r\n\r\n"
    length = int(header(head, "content-length") or 0)
    while len(body) < length:
        body += stream.recv(65536)
    return head, body


def header(head, name):
    for line in head.decode().split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key.lower() == name:
            return value.strip()
    return None


def repeated(forgetful, client, payload):
    """One call that boto3 had to repeat."""
    before = len(forgetful.answers)
    seen = call(client, payload)
    invocations, answers = forgetful.invocations[before:], forgetful.answers[before:]
    return {
        "attempts": len(answers),
        "same_invocation": len(set(invocations)) == 1 and bool(invocations[0]),
        "same_answer": len(set(answers)) == 1,
        "payload": seen.get("payload"),
    }


client = boto3.client("lambda")
forgetful = Forgetful(os.environ["AWS_ENDPOINT_URL_LAMBDA"])
forgetful.start()
again = boto3.client("lambda", endpoint_url=forgetful.url, config=Config(retries={"mode": "standard"}))

results = {
    "acquire": call(client, acquire()),
    "acquire_twice": call(client, acquire()),
    "status": call(client, {"action": "status"}),
    "release": call(client, release()),
    "release_twice": call(client, release()),
    "qualifier": call(client, {"action": "status"}, Qualifier="prod"),
    "name_with_alias": call(client, {"action": "status"}, name=f"{AGENT}:prod"),
    "partial_arn": call(client, {"action": "status"}, name=f"123456789012:function:{AGENT}"),
    "arn": call(client, {"action": "status"}, name=ARN),
    "arn_with_alias": call(client, {"action": "status"}, name=f"{ARN}:prod"),
    "request_response": call(client, {"action": "status"}, InvocationType="RequestResponse"),
    "dry_run": call(client, None, InvocationType="DryRun"),
    "status_after_dry_run": call(client, {"action": "status"}),
    "event": call(client, acquire("run-event"), InvocationType="Event"),
    "log_tail": call(client, {"action": "status"}, LogType="Tail"),
    "unknown_function": call(client, {"action": "status"}, name="somebody-else"),
    "unknown_action": call(client, {"action": "explode"}),
    "not_json": call(client, b"{not json"),
    "too_large": call(client, json.dumps("x" * (7 << 20))),
    "repeated_acquire": repeated(forgetful, again, acquire("run-repeated")),
    "repeated_release": repeated(forgetful, again, release("run-repeated")),
}
print(json.dumps(results))
