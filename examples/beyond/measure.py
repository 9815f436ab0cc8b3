"""Runs both ways on the same orders, and prints what each of them took as a Markdown table.

    python3 examples/beyond/measure.py --binary target/release/tidemill --sizes 1000000,10000000 --workers 1,2

It measures the whole machine, because the work moves between Tidemill, Java and the database: run it on Linux, on a
machine that does nothing else, with PostgreSQL (TIDEMILL_DATABASE_URL) on the same machine. Spark is found as in any
other job: SPARK_HOME, then PATH.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path

from generate import generate

HERE = Path(__file__).resolve().parent
HEAD = ["Work", "Orders", "Way", "At once", "Time", "CPU", "Peak memory"]
# The steps of each work, the first and the last.
WORKS = {
    "clean": {"partitions": ("clean", "clean"), "Spark": ("clean", "clean")},
    "totals": {"partitions": ("customers", "totals"), "Spark": ("totals", "load")},
}
SAMPLE_SECONDS = 0.1
START_SECONDS = 120


def busy_seconds():
    """CPU time of all processors since the start of the machine, without waiting."""
    user, nice, system, _idle, _wait, irq, softirq = Path("/proc/stat").read_text().split()[1:8]
    ticks = sum(map(int, (user, nice, system, irq, softirq)))
    return ticks / os.sysconf("SC_CLK_TCK")


def available_bytes():
    """What programs could still get. It counts the cache of files as available, and shared memory as used."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    sys.exit("this kernel does not tell how much memory is available")


class Sampler:
    """Looks at the machine all the time, so that each step can be measured afterwards."""

    def __enter__(self):
        self.samples = []
        self.is_over = threading.Event()
        self.look()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        self.look()

    def look(self):
        self.samples.append((time.time(), busy_seconds(), available_bytes()))

    def watch(self):
        while not self.is_over.wait(SAMPLE_SECONDS):
            self.look()

    def between(self, start, end):
        """CPU seconds between two times, and the most memory in use, beyond that before the first sample."""
        before = [sample for sample in self.samples if sample[0] <= start] or self.samples[:1]
        after = [sample for sample in self.samples if sample[0] >= end] or self.samples[-1:]
        within = [sample for sample in self.samples if before[-1][0] <= sample[0] <= after[0][0]]
        least = min(available for _, _, available in within)
        return after[0][1] - before[-1][1], max(self.samples[0][2] - least, 0)


class Tidemill:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder

    def run(self, *arguments):
        command = [self.binary, *arguments]
        ran = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        if ran.returncode:
            sys.exit(f"{' '.join(command)} ended with {ran.returncode}")
        return ran.stdout

    def job(self, name, *arguments):
        """Runs a new instance of the job, and returns when each step started and ended."""
        file = str(HERE / f"{name}.yaml")
        told = self.run("--quiet", "job", "run", file, "--next", "-o", "json", *arguments)
        steps = json.loads(told)["steps"]
        return {step["name"]: (seconds(step["started_at"]), seconds(step["ended_at"])) for step in steps}

    def living(self):
        return self.run("process", "list", "-o", "csv").count(",live,")

    @contextlib.contextmanager
    def workers(self, count):
        """Other processes, each of which runs one partition at a time."""
        before = self.living()
        command = [self.binary, "--quiet", "job", "work", "--jobs", str(HERE), "--slots", "1"]
        started = [subprocess.Popen(command, cwd=self.folder) for _ in range(count)]
        try:
            give_up = time.monotonic() + START_SECONDS
            while self.living() < before + count:
                if time.monotonic() > give_up:
                    sys.exit(f"{count} workers did not start within {START_SECONDS} seconds")
                time.sleep(SAMPLE_SECONDS)
            yield
        finally:
            for worker in started:
                worker.send_signal(signal.SIGTERM)
            ended = [worker.wait() for worker in started]
        if any(ended):
            sys.exit(f"a worker failed: {ended}")


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def rows(way, orders, at_once, steps, sampler):
    """A row of the table for each work."""
    for work, ways in WORKS.items():
        first, last = ways[way]
        start, end = steps[first][0], steps[last][1]
        cpu, memory = sampler.between(start, end)
        peak = f"{memory / 2**20:,.0f} MiB"
        yield [work, f"{orders:,}", way, str(at_once), f"{end - start:.1f} s", f"{cpu:.1f} s", peak]


def measure(tidemill, orders, at_once, memory):
    """Both ways on the orders that are there. They must come to the same totals."""
    for old in (tidemill.folder / "data").glob("*.clean"):
        old.unlink()
    with Sampler() as sampler, tidemill.workers(at_once - 1):
        steps = tidemill.job("partitioned")
    measured = list(rows("partitions", orders, at_once, steps, sampler))
    spark = [f"app={HERE / 'orders.py'}", f"master=local[{at_once}]", f"memory={memory}"]
    with Sampler() as sampler:
        steps = tidemill.job("spark", *(word for pair in spark for word in ("-p", pair)))
    measured += rows("Spark", orders, at_once, steps, sampler)
    tidemill.job("compare")
    return measured


def print_row(cells):
    print(f"| {' | '.join(cells)} |", flush=True)


def numbers(text):
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description="Runs both ways, and prints what each of them took.")
    parser.add_argument("--binary", required=True, help="the program tidemill")
    parser.add_argument("--sizes", type=numbers, default=[1_000_000], help="numbers of orders, such as 1000000,10000000")
    parser.add_argument("--workers", type=numbers, default=[1, 2], help="processes with a partition each, and tasks of Spark")
    parser.add_argument("--files", type=int, default=16, help="number of files of orders, which are the partitions")
    parser.add_argument("--memory", default="1g", help="heap of Spark")
    parser.add_argument("--folder", default=".", help="where a folder for the data is made, and removed at the end")
    given = parser.parse_args()
    if not sys.platform.startswith("linux"):
        sys.exit("measure.py reads /proc, so it needs Linux")
    print_row(HEAD)
    print_row(["---"] * len(HEAD))
    with tempfile.TemporaryDirectory(prefix="tidemill-beyond-", dir=given.folder) as folder:
        tidemill = Tidemill(str(Path(given.binary).resolve()), Path(folder).resolve())
        for orders in given.sizes:
            generate(tidemill.folder / "data", orders, given.files)
            for at_once in given.workers:
                for row in measure(tidemill, orders, at_once, given.memory):
                    print_row(row)


if __name__ == "__main__":
    main()
