"""Writes signed.json: Lambda requests exactly as botocore puts them on the wire, signed by it.

    python3 -m venv venv && venv/bin/pip install botocore && venv/bin/python sign.py > signed.json

Nothing is sent: the request is taken away just before, and the clock of the signer stands still.
"""

import datetime
import json
import sys
from urllib.parse import urlsplit

import botocore.auth
import botocore.session
from botocore.awsrequest import AWSResponse
from botocore.config import Config

NOW = datetime.datetime(2026, 11, 15, 0, 13, 19)
KEY, SECRET = "AKIDEXAMPLE", "an-example-secret-of-forty-characters+/A"
TOKEN = "FwoGZXIvYXdzEXAMPLE//////////wEaDEXAMPLETOKEN=="
ARN = "arn:aws:lambda:ap-northeast-2:123456789012:function:emr-batch-agent"
ACQUIRE = {
    "action": "acquire",
    "dag_id": "batch_001",
    "dag_run_id": "batch_001_2024-01-25T00:05:00",
    "src_db_id": 4,
    "parallel_hint": 8,
    "table_name": "SALES_ORDER",
}

botocore.auth.get_current_datetime = lambda: NOW


class Body:
    """An empty answer."""

    def stream(self, *_args, **_kwargs):
        return iter([b"{}"])


def text(value):
    """What may be bytes, as text."""
    return value if isinstance(value, str) else value.decode()


def capture(name, endpoint="http://127.0.0.1:18080", region="ap-northeast-2", token=None, **arguments):
    """The request of one call of `invoke`."""
    caught = []

    def catch(request, **_):
        caught.append(request)
        return AWSResponse(request.url, 200, {}, Body())

    session = botocore.session.Session()
    session.set_credentials(KEY, SECRET, token)
    client = session.create_client(
        "lambda", region_name=region, endpoint_url=endpoint, config=Config(retries={"total_max_attempts": 1})
    )
    client.meta.events.register("before-send.lambda.Invoke", catch)
    client.invoke(**arguments)

    request = caught[0]
    url = urlsplit(request.url)
    # The name of the program is not signed, and tells of the machine where this ran.
    headers = {key: text(value) for key, value in request.headers.items() if key != "User-Agent"}
    headers.setdefault("Host", url.netloc)
    return {
        "name": name,
        "method": request.method,
        "path": url.path,
        "query": url.query or None,
        "headers": headers,
        "body": text(request.body or ""),
    }


function = "emr-batch-agent"
payload = json.dumps(ACQUIRE)
requests = [
    capture("plain name", FunctionName=function, Payload=payload),
    capture("full ARN with an alias", FunctionName=f"{ARN}:prod", Payload=payload),
    capture("partial ARN", FunctionName="123456789012:function:" + function, Payload=payload),
    capture("name with $LATEST", FunctionName=function + ":$LATEST", Payload=payload),
    capture("qualifier in the query", FunctionName=function, Qualifier="$LATEST", Payload=payload),
    capture("session token", token=TOKEN, FunctionName=function, Payload=payload),
    capture("dry run without a body", FunctionName=function, InvocationType="DryRun"),
    capture(
        "event with a client context, an alias and a session token",
        token=TOKEN,
        FunctionName=ARN,
        Qualifier="prod",
        InvocationType="Event",
        ClientContext="eyJjdXN0b20iOnsiYSI6MX19",
        Payload=payload,
    ),
    capture(
        "Unicode body with the tail of the log",
        FunctionName=function,
        InvocationType="RequestResponse",
        LogType="Tail",
        Payload=json.dumps({**ACQUIRE, "dag_id": "정산_배치", "table_name": "매출 ✓ 𝕏"}, ensure_ascii=False).encode(),
    ),
    capture(
        "another host, region and base path",
        endpoint="http://tidemill.example/base",
        region="eu-west-1",
        FunctionName=function,
        Payload=payload,
    ),
]
fixture = {
    "signer": "botocore " + botocore.__version__,
    "signed_at": NOW.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "key_id": KEY,
    "secret": SECRET,
    "requests": requests,
}
json.dump(fixture, sys.stdout, ensure_ascii=False, indent=1)
print()
