"""A receiver of OTLP over HTTP: reads what it gets by the definitions of OpenTelemetry, and writes a line for each record."""

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

output = sys.argv[1]
lock = Lock()


def values(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def spans(scope):
    for span in scope.spans:
        yield {
            "kind": "span",
            "name": span.name,
            "trace": span.trace_id.hex(),
            "id": span.span_id.hex(),
            "parent": span.parent_span_id.hex(),
            "attributes": values(span.attributes),
            "links": [link.trace_id.hex() for link in span.links],
            "status": span.status.code,
        }


def logs(scope):
    for record in scope.log_records:
        yield {
            "kind": "log",
            "text": record.body.string_value,
            "trace": record.trace_id.hex(),
            "span": record.span_id.hex(),
        }


def metrics(scope):
    for metric in scope.metrics:
        data = getattr(metric, metric.WhichOneof("data"))
        for point in data.data_points:
            line = {"kind": "metric", "name": metric.name, "attributes": values(point.attributes)}
            if metric.HasField("histogram"):
                yield {**line, "count": point.count, "buckets": list(point.bucket_counts), "sum": point.sum}
            else:
                yield {**line, "value": getattr(point, point.WhichOneof("value"))}


SIGNALS = {
    "/v1/traces": (ExportTraceServiceRequest, "resource_spans", "scope_spans", spans),
    "/v1/logs": (ExportLogsServiceRequest, "resource_logs", "scope_logs", logs),
    "/v1/metrics": (ExportMetricsServiceRequest, "resource_metrics", "scope_metrics", metrics),
}


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        message, resources, scopes, records = SIGNALS[self.path]
        request = message()
        request.ParseFromString(body)
        about = {"authorization": self.headers.get("authorization"), "encoding": self.headers.get("content-encoding")}
        with lock, open(output, "a") as file:
            for resource in getattr(request, resources):
                about["resource"] = values(resource.resource.attributes)
                for scope in getattr(resource, scopes):
                    for record in records(scope):
                        file.write(json.dumps({**record, **about}) + "\n")
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_address[1], flush=True)
server.serve_forever()
