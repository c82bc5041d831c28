"""Runs of a sweep on a Ray cluster: `python3 -m towpath.on_ray`, which `towpath sim sweep --on ray` starts.

Standard input has a header and then jobs, a line of JSON each; rows go to standard output, with the node that made
them. The input stays open until the last row is there: its end means that the program is gone.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import io
import json
import os
import sys
import tempfile
import threading
import time
import zipfile
from collections import deque
from pathlib import Path
from typing import Any, TextIO

# Seconds that a batch should take: long against what a task costs, short against what is lost with a node.
BATCH_S = 1.0
# Batches that wait at each processor, so that it does not wait for the next one.
AHEAD = 2
# How often a batch may be lost before the sweep is given up.
LOST_MAX = 5

Job = dict[str, Any]


def main(words: list[str] | None = None) -> int:
    """Reads the header, connects, and does the jobs."""
    parser = argparse.ArgumentParser(prog="python3 -m towpath.on_ray", description=__doc__.splitlines()[0])
    parser.add_argument("--address", help="of the cluster; default: RAY_ADDRESS, or a new one on this machine")
    parser.add_argument("--send", action="store_true", help="give this wheel to nodes that have none or another")
    args = parser.parse_args(words)
    out = _own_output()
    try:
        import ray
    except ImportError:
        print("towpath: Ray is missing; pip install 'ray>=2.9'", file=sys.stderr)
        return 2
    from towpath._towpath import BUILD

    header = json.loads(sys.stdin.readline() or "{}")
    if header.get("build") != BUILD:
        _say(out, error=f"this Python has towpath of build {BUILD}, the program is {header.get('build')}; install one wheel")
        return 2
    with tempfile.TemporaryDirectory(prefix="towpath-wheel-") as scratch:
        runtime = {"py_modules": [str(own_wheel(Path(scratch)))]} if args.send else {}
        _connect(ray, args.address, runtime)
        _say(out, ready=BUILD)
        try:
            return _Sweep(ray, header, out).run()
        finally:
            ray.shutdown()


def _own_output() -> TextIO:
    """The standard output for answers alone: whatever else prints goes to standard error."""
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own


def _say(out: TextIO, **answer: Any) -> None:
    print(json.dumps(answer), file=out, flush=True)


def _connect(ray: Any, address: str | None, runtime: dict[str, Any]) -> None:
    if ray.is_initialized():
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "runtime_env": runtime}
    if address is None and not os.environ.get("RAY_ADDRESS"):
        options |= {"include_dashboard": False, "object_store_memory": 80 * 2**20}
    ray.init(address=address, **options)


def own_wheel(folder: Path) -> Path:
    """The wheel that this package was installed from, made again from its files; its hash is in its name."""
    package = importlib.metadata.distribution("towpath")
    octets = io.BytesIO()
    with zipfile.ZipFile(octets, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in sorted(package.files or [], key=str):
            if str(file).startswith("..") or "__pycache__" in str(file) or file.name in ("INSTALLER", "direct_url.json", "REQUESTED"):
                continue
            wheel.writestr(zipfile.ZipInfo(str(file)), Path(str(package.locate_file(file))).read_bytes())
        tag = next(line[5:] for line in (package.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: "))
    digest = hashlib.sha256(octets.getvalue()).hexdigest()[:12]
    path = folder / f"towpath-{package.version}-0{digest}-{tag}.whl"
    path.write_bytes(octets.getvalue())
    return path


def _run_batch(build: str, scenario: str, jobs: list[Job]) -> dict[str, Any]:
    """On a node: the rows of jobs, or the build that is there instead."""
    import socket

    import ray

    context = ray.get_runtime_context()
    node = f"{socket.gethostname()}/{context.get_node_id()[:8]}"
    try:
        from towpath import _towpath
    except ImportError:
        return {"node": node, "build": None}
    if build != _towpath.BUILD:
        return {"node": node, "build": _towpath.BUILD}
    rows = [_towpath.run_job(job["key"], scenario, job["changes"], job["seed"]) for job in jobs]
    return {"node": node, "build": build, "rows": rows}


class _Sweep:
    """The jobs of a sweep in batches; batches that are lost are done again."""

    def __init__(self, ray: Any, header: dict[str, Any], out: TextIO) -> None:
        self.ray = ray
        self.header = header
        self.out = out
        self.jobs: deque[Job] = deque()
        self.lock = threading.Condition()
        self.job_s = BATCH_S
        self.pending: dict[Any, tuple[list[Job], float, int]] = {}
        self.lost: deque[tuple[list[Job], int]] = deque()
        # No retries by Ray: a batch that is lost comes back to us, which counts it.
        self.task = ray.remote(num_cpus=1, max_retries=0)(_run_batch)

    def run(self) -> int:
        left = int(self.header["jobs"])
        threading.Thread(target=self._read_jobs, daemon=True).start()
        while left > 0:
            self._submit()
            if not self.pending:
                with self.lock:
                    self.lock.wait(0.1)
                continue
            done, _ = self.ray.wait(list(self.pending), num_returns=1, timeout=1.0)
            for task in done:
                count = self._collect(task)
                if count is None:
                    return 1
                left -= count
        return 0

    def _read_jobs(self) -> None:
        for line in sys.stdin:
            with self.lock:
                self.jobs.append(json.loads(line))
                self.lock.notify()
        # The program is gone, or has all rows.
        os._exit(0)

    def _slots(self) -> int:
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def _submit(self) -> None:
        room = self._slots() * AHEAD - len(self.pending)
        for _ in range(max(0, room)):
            jobs, tries = self._next_batch()
            if not jobs:
                return
            task = self.task.remote(self.header["build"], self.header["scenario"], jobs)
            self.pending[task] = (jobs, time.monotonic(), tries)

    def _next_batch(self) -> tuple[list[Job], int]:
        if self.lost:
            return self.lost.popleft()
        with self.lock:
            # At the end batches shrink, so that all processors end together.
            fair = max(1, len(self.jobs) // (2 * self._slots()))
            count = min(len(self.jobs), fair, max(1, int(BATCH_S / max(self.job_s, 1e-6))))
            return [self.jobs.popleft() for _ in range(count)], 0

    def _collect(self, task: Any) -> int | None:
        """Rows written for a task that ended; None when the sweep cannot go on."""
        jobs, began, tries = self.pending.pop(task)
        try:
            answer = self.ray.get(task)
        except self.ray.exceptions.RayTaskError as error:
            _say(self.out, error=f"a run failed: {str(error.cause).splitlines()[0]}")
            return None
        except self.ray.exceptions.RayError as error:
            return self._again(jobs, tries, error)
        if answer["build"] != self.header["build"]:
            has = f"of build {answer['build']}" if answer["build"] else "not installed"
            _say(
                self.out,
                error=f"node {answer['node']}: towpath is {has}, this sweep is {self.header['build']}; "
                "install the same wheel there, or give --send",
            )
            return None
        # The batches ahead of it waited too, so this is no less than what a job takes.
        took_s = (time.monotonic() - began) / len(jobs) / AHEAD
        self.job_s = took_s if self.job_s == BATCH_S else (self.job_s + took_s) / 2
        for row in answer["rows"]:
            _say(self.out, row={"node": answer["node"], "text": row})
        return len(jobs)

    def _again(self, jobs: list[Job], tries: int, error: Exception) -> int | None:
        why = type(error).__name__
        if tries + 1 >= LOST_MAX:
            _say(self.out, error=f"a batch of {len(jobs)} runs was lost {LOST_MAX} times ({why}); look at the nodes' logs")
            return None
        _say(self.out, note=f"{len(jobs)} runs were lost with their node ({why}); they are done again")
        self.lost.append((jobs, tries + 1))
        return 0


if __name__ == "__main__":
    sys.exit(main())
