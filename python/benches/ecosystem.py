"""Figures of `cargo xtask bench ecosystem`: a line `NAME VALUE NOTE` each, ratios in turns."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import towpath

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "studies" / "scenarios" / "two-hosts.toml"


def timed(call):
    """Seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def python_sim():
    """Events a second in process, against the program's own count, which leaves out its start."""
    ratios = []
    for _ in range(5):
        said = subprocess.run(
            [towpath.program(), "sim", "run", SCENARIO, "--set", "messages=60000", "--set", "time_limit=10000 s"],
            capture_output=True, text=True, check=True,
        ).stderr
        events, seconds = int(said.split()[0]), float(said.split(" in ")[1].split()[0])
        outcome = None

        def run():
            nonlocal outcome
            outcome = towpath.simulate(SCENARIO, messages=60000, time_limit="10000 s")

        took = timed(run)
        ratios.append(outcome["events"] / took / (events / seconds))
    return statistics.median(ratios), "median of 5 pairs, 60,000 messages each"


def ray_sweep():
    """400 runs of about 0.1 s on two nodes of one processor, against --jobs 2."""
    try:
        import ray
        from ray.cluster_utils import Cluster
    except ImportError:
        return None, "Ray is not installed"
    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as scratch:
        # Ray writes the address of the last cluster here.
        os.makedirs("/tmp/ray", exist_ok=True)
        cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False, "temp_dir": scratch})
        cluster.add_node(**node)
        cluster.wait_for_nodes()
        try:
            messages = 4000
            messages = max(100, int(messages * 0.1 / timed(lambda: towpath.simulate(SCENARIO, messages=messages))))
            points = {"messages": [messages]}
            # Workers of Ray start with their first batch; that is the start of the cluster.
            towpath.sweep(SCENARIO, points, range(1, 9), on=f"ray:{cluster.address}")
            local = timed(lambda: towpath.sweep(SCENARIO, points, range(1, 401), jobs=2))
            there = timed(lambda: towpath.sweep(SCENARIO, points, range(1, 401), on=f"ray:{cluster.address}"))
        finally:
            ray.shutdown()
            cluster.shutdown()
    return local / there, f"400 runs: {local:.1f} s here, {there:.1f} s on two nodes, connecting included"


def big_folder(scratch):
    """A run of 10,000 trials: those of a short race, again and again."""
    small, big = Path(scratch) / "small", Path(scratch) / "big"
    towpath.race(["tcp", "udp"], sizes=[64], workload="throughput", time="3s", out=small, no_report=True, regardless=True)
    big.mkdir()
    for name in ("plan.toml", "machine.json"):
        (big / name).write_bytes((small / name).read_bytes())
    trials = [json.loads(line) for line in (small / "trials.jsonl").read_text().splitlines()]
    with open(big / "trials.jsonl", "w", encoding="utf-8") as file:
        for index in range(10_000):
            trial = dict(trials[index % len(trials)], index=index)
            file.write(json.dumps(trial) + "\n")
    return big


def read_10k():
    """Reading a folder of 10,000 trials and making its rows."""
    with tempfile.TemporaryDirectory() as scratch:
        big = big_folder(scratch)
        # With a summary, as a race that ended has it; computing one is not reading.
        (big / "summary.json").write_text(json.dumps(towpath.read(big).summary))
        return statistics.median(timed(lambda: towpath.read(big).rows()) for _ in range(5)), "read and rows, median of 5"


def parquet_10k():
    """The program's export of the same folder."""
    with tempfile.TemporaryDirectory() as scratch:
        big = big_folder(scratch)
        (big / "summary.json").write_text(json.dumps(towpath.read(big).summary))
        words = [towpath.program(), "export", big, "--parquet", Path(scratch) / "tables"]
        times = [timed(lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL)) for _ in range(5)]
        return statistics.median(times), "the whole command, median of 5"


def watch_cost(pairs=40):
    """tcp at 64 B with a watcher of the race beside it, against without: in turns, trial by trial of one race."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "run"
        toggler = threading.Thread(target=watch_in_turns, args=(out, 2 * pairs), daemon=True)
        toggler.start()
        run = towpath.race(
            ["tcp"], sizes=[64], workload="throughput", trial="2s", blocks=2 * pairs, time=f"{6 * pairs}s", out=out,
            no_report=True, no_control=True, regardless=True,
        )  # fmt: skip
        toggler.join()
        trials = [row for row in map(json.loads, (out / "trials.jsonl").read_text().splitlines()) if "block" in row]
    rates = [trial["metrics"]["messages_per_s"] for trial in trials]
    both = zip(rates[0::2], rates[1::2])
    # Whether the first or the second of a pair was watched changes from pair to pair.
    ratios = [first / second if is_watched(2 * pair) else second / first for pair, (first, second) in enumerate(both)]
    ratios.sort()
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    return statistics.median(ratios), f"median of {len(ratios)} pairs of trials of 2 s, half of them {low:.3f} ... {high:.3f}"


def is_watched(trial):
    """Whether the watcher runs beside a trial: 1001 1001 ..."""
    return trial % 4 in (0, 3)


def watch_in_turns(out, trials):
    """A watcher of the race, stopped and continued as the trials end."""
    path = out / "trials.jsonl"
    while not path.exists():
        time.sleep(0.02)
    watcher = subprocess.Popen([towpath.program(), "watch", out, "--every", "2s"], stdout=subprocess.DEVNULL)
    done = 0
    try:
        while done < trials and watcher.poll() is None:
            os.kill(watcher.pid, signal.SIGCONT if is_watched(done) else signal.SIGSTOP)
            while (now := path.read_bytes().count(b"\n")) == done and watcher.poll() is None:
                time.sleep(0.02)
            done = now
    finally:
        os.kill(watcher.pid, signal.SIGCONT)
        watcher.terminate()
        watcher.wait()


def main():
    """The figures that are asked for, or all."""
    figures = {"python-sim": python_sim, "ray-sweep": ray_sweep, "read-10k": read_10k, "parquet-10k": parquet_10k, "watch-cost": watch_cost}
    for name in sys.argv[1:] or figures:
        try:
            value, note = figures[name]()
        except (OSError, ValueError, RuntimeError, subprocess.CalledProcessError) as error:
            value, note = None, str(error).splitlines()[0]
        print(name, "none" if value is None else f"{value:.4f}", note, flush=True)


if __name__ == "__main__":
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    main()
