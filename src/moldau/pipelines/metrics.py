"""The facts of a run as Prometheus metrics, served by a small HTTP server of the standard library."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, NamedTuple

from moldau.pipelines.progress import QueryFacts

PREFIX: Final = "moldau_pipeline_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metric(NamedTuple):
    name: str
    kind: str
    help: str
    value: Callable[[QueryFacts], float | None]


METRICS: Final = (
    Metric("input_rows_total", "counter", "Rows read since the run began.", lambda q: q.input_rows),
    Metric("output_rows_total", "counter", "Rows written since the run began.", lambda q: q.output_rows),
    Metric("input_rows_per_second", "gauge", "Rows read per second.", lambda q: q.input_rows_per_second),
    Metric("output_rows_per_second", "gauge", "Rows written per second.", lambda q: q.output_rows_per_second),
    Metric("lag_records", "gauge", "Records in topics that were not read yet.", lambda q: q.lag_records),
    Metric("lag_seconds", "gauge", "Age of the oldest record that was not read yet.", lambda q: q.lag_seconds),
    Metric(
        "batch_duration_seconds",
        "gauge",
        "Time that the last batch took.",
        lambda q: None if q.batch_ms is None else q.batch_ms / 1000,
    ),
    Metric("batch_id", "gauge", "Number of the last batch.", lambda q: q.batch_id),
    Metric("state_rows", "gauge", "Rows held as state.", lambda q: q.state_rows),
    Metric("state_bytes", "gauge", "Memory used by state.", lambda q: q.state_bytes),
    Metric("restarts_total", "counter", "Restarts after failures.", lambda q: q.restarts),
    Metric("query_up", "gauge", "1 while the query runs.", lambda q: float(q.state == "running")),
)


def render(pipeline: str, state: str, queries: Iterable[QueryFacts]) -> str:
    """The text exposition format."""
    queries = list(queries)
    name = _escape(pipeline)
    lines = [
        f"# HELP {PREFIX}up 1 while the pipeline runs.",
        f"# TYPE {PREFIX}up gauge",
        f'{PREFIX}up{{pipeline="{name}"}} {int(state == "running")}',
    ]
    for metric in METRICS:
        lines += [f"# HELP {PREFIX}{metric.name} {metric.help}", f"# TYPE {PREFIX}{metric.name} {metric.kind}"]
        for query in queries:
            value = metric.value(query)
            if value is not None:
                labels = f'pipeline="{name}",query="{_escape(query.name)}"'
                lines.append(
                    f"{PREFIX}{metric.name}{{{labels}}} {value:g}" if value < 1e6 else _large(metric, labels, value)
                )
    return "\n".join(lines) + "\n"


def _large(metric: Metric, labels: str, value: float) -> str:
    return f"{PREFIX}{metric.name}{{{labels}}} {value!r}"  # %g would round counters


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class MetricsServer:
    """Serves `/metrics` until it is closed."""

    def __init__(self, port: int, text: Callable[[], str], host: str = "0.0.0.0") -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.split("?")[0] not in ("/metrics", "/"):
                    self.send_error(404)
                    return
                body = text().encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="pipeline-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)
