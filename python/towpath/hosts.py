"""Races on the machines of a Ray cluster. Ray is imported when these are called."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from html import escape
from itertools import permutations
from pathlib import Path
from typing import Any

from . import _program
from ._results import Run, read

OnProgress = Callable[[str], None]

# The files of a run's folder that come back from a node.
FILES = ("plan.toml", "machine.json", "trials.jsonl", "summary.json", "report.html")


def race_on(
    hosts: Iterable[str] | None,
    contestants: Sequence[str],
    *,
    out: str | os.PathLike[str],
    on_progress: OnProgress | None = None,
    **options: Any,
) -> dict[str, Run]:
    """The same race on each machine, and the results by host, in folders below `out`.

    `hosts` are names, addresses or IDs of Ray's nodes; None is all. A race claims all processors of its node and is never
    repeated: what fails is a ProgramError that names the node. Nodes of one machine race one after the other.
    """
    ray = _ray()
    nodes = _nodes(ray, hosts)
    _name_busy(ray, nodes, on_progress)
    words = ["race", *contestants, *_program.option_words(options)]
    tasks = {}
    for name, node in nodes.items():
        task = ray.remote(num_cpus=node["Resources"].get("CPU", 1), max_retries=0)(_race_here)
        tasks[task.options(scheduling_strategy=_pinned(node)).remote(words)] = name
    results: dict[str, Run] = {}
    try:
        for task, name in tasks.items():
            results[name] = _keep(_get(ray, task, name), Path(out) / _folder_name(name))
    except BaseException:
        for task in tasks:
            ray.cancel(task, force=True)
        raise
    return results


def race_between(
    hosts: Iterable[str] | None,
    contestants: Sequence[str],
    *,
    out: str | os.PathLike[str],
    at_once: bool = False,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> dict[tuple[str, str], Run]:
    """Races from each host to each other one, and the results by sender and receiver.

    On each host an agent starts, with keys made for this call in a folder of its own; agents, keys and folders are gone
    afterwards. `index.html` in `out` is a matrix host by host. Pairs race one after another, or with `at_once` in rounds in which no host is in two pairs.
    """
    ray = _ray()
    nodes = _nodes(ray, hosts)
    if len(nodes) < 2:
        raise ValueError(f"a race between hosts needs two, and there is {', '.join(nodes) or 'none'}")
    _name_busy(ray, nodes, on_progress)
    actor = ray.remote(max_restarts=0, max_task_retries=0)(_Agent)
    agents = {
        name: actor.options(num_cpus=node["Resources"].get("CPU", 1), scheduling_strategy=_pinned(node)).remote()
        for name, node in nodes.items()
    }
    try:
        words = ["race", *contestants, *_program.option_words(options)]
        results = _race_pairs(ray, agents, words, Path(out), at_once, on_progress)
    finally:
        for agent in agents.values():
            _stop(ray, agent)
    (Path(out) / "index.html").write_text(matrix(results), encoding="utf-8")
    return results


def _stop(ray: Any, agent: Any) -> None:
    """Ends an agent and its actor; a lost node has ended both."""
    try:
        ray.get(agent.stop.remote(), timeout=20)
    except ray.exceptions.RayError:
        pass
    ray.kill(agent)


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ValueError("Ray is missing; pip install 'ray>=2.9'") from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level="ERROR")
    return ray


def _nodes(ray: Any, hosts: Iterable[str] | None) -> dict[str, Any]:
    """The nodes by the name that the caller gave."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    if hosts is None:
        names = [node["NodeManagerHostname"] for node in alive]
        # Nodes of one machine are told apart by their IDs.
        return {name if names.count(name) == 1 else node["NodeID"]: node for name, node in zip(names, alive)}
    found: dict[str, Any] = {}
    for host in hosts:
        fits = [n for n in alive if host in (n["NodeManagerHostname"], n["NodeManagerAddress"], n["NodeID"])]
        if len(fits) != 1:
            known = ", ".join(f"{n['NodeManagerHostname']} ({n['NodeID']})" for n in alive)
            count = "no node is" if not fits else f"{len(fits)} nodes are"
            raise ValueError(f"{count} called {host}; there are: {known}")
        found[host] = fits[0]
    return found


def _pinned(node: Any) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)


def _name_busy(ray: Any, nodes: dict[str, Any], on_progress: OnProgress | None) -> None:
    """Names the nodes whose processors other work of Ray holds, for which a race has to wait."""
    try:
        free = ray._private.state.available_resources_per_node()
    except AttributeError:
        return
    for name, node in nodes.items():
        wanted = node["Resources"].get("CPU", 0)
        if wanted < 1:
            raise ValueError(f"node {name} has no processor for Ray; start it with --num-cpus")
        if free.get(node["NodeID"], {}).get("CPU", 0) < wanted:
            line = f"node {name}: other work of Ray holds its processors; its race waits for them"
            on_progress(line) if on_progress else warnings.warn(line, stacklevel=3)


def _get(ray: Any, task: Any, name: str) -> dict[str, bytes]:
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ValueError):
            raise ValueError(f"node {name}: {error.cause}") from None
        raise _program.ProgramError(f"node {name}: {error.cause}", 1) from None
    except ray.exceptions.RayError as error:
        raise _program.ProgramError(f"node {name} was lost during its race ({type(error).__name__})", 1) from error


def _race_here(words: list[str], env: dict[str, str] | None = None) -> dict[str, bytes]:
    """On a node: a race, and the files of its folder. The program ends with this process."""
    with tempfile.TemporaryDirectory(prefix="towpath-race-") as scratch:
        folder = Path(scratch) / "run"
        _program.run([*words, "--out", str(folder)], env=env)
        return {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}


def _keep(files: dict[str, bytes], folder: Path) -> Run:
    folder.mkdir(parents=True)
    for name, octets in files.items():
        (folder / name).write_bytes(octets)
    return read(folder)


def _folder_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "-" for c in name)


class _Agent:
    """On a node: an agent with keys of its own."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="towpath-agent-")
        self.env = {"TOWPATH_KEYS": str(Path(self.folder.name) / "keys")}
        self.key = _program.run(["key", "new"], env=self.env)[0]
        self.agent: subprocess.Popen[str] | None = None

    def start(self, client_key: str) -> tuple[str, str]:
        """Trusts the client, and starts an agent; gives its address and key."""
        import ray

        _program.run(["key", "trust", client_key, "client"], env=self.env)
        address = ray.util.get_node_ip_address()
        words = ["study-run", "--parent", str(os.getpid()), "--", "agent", "--listen", f"{address}:0"]
        self.agent = subprocess.Popen(
            [_program.program(), *words],
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.agent.stdout is not None
        line = self.agent.stdout.readline()
        if not line.startswith("listening on "):
            raise ValueError(f"the agent at {address} did not start")
        threading.Thread(target=self.agent.stdout.read, daemon=True).start()
        return line.removeprefix("listening on ").strip(), self.key

    def stop(self) -> None:
        """Ends the agent, and removes its folder."""
        if self.agent is not None:
            self.agent.terminate()
            self.agent.wait(10)
        self.folder.cleanup()


def _race_pairs(
    ray: Any,
    agents: dict[str, Any],
    words: list[str],
    out: Path,
    at_once: bool,
    on_progress: OnProgress | None,
) -> dict[tuple[str, str], Run]:
    """Introduces the agents to a client here, which races each pair."""
    with tempfile.TemporaryDirectory(prefix="towpath-client-") as scratch:
        env = {"TOWPATH_KEYS": str(Path(scratch) / "keys")}
        own_key = _program.run(["key", "new"], env=env)[0]
        started = {name: ray.get(agent.start.remote(own_key)) for name, agent in agents.items()}
        for address, key in started.values():
            _program.run(["key", "trust", key, address.rsplit(":", 1)[0].strip("[]")], env=env)

        def race(pair: tuple[str, str]) -> Run:
            ends = [started[name][0] for name in pair]
            folder = out / "-to-".join(_folder_name(name) for name in pair)
            line = [*words, "--from", ends[0], "--to", ends[1], "--out", str(folder)]
            # Pairs of one round have no host in common; this host, which only asks, is in all of them.
            line += ["--regardless"] if at_once else []
            _program.run(line, on_progress, env)
            return read(folder)

        results: dict[tuple[str, str], Run] = {}
        for pairs in _rounds(list(agents), at_once):
            with ThreadPoolExecutor(len(pairs)) as pool:
                results.update(zip(pairs, pool.map(race, pairs)))
        return results


def _rounds(names: list[str], at_once: bool) -> list[list[tuple[str, str]]]:
    """Ordered pairs: one a round, or rounds in which no host is in two."""
    pairs = list(permutations(names, 2))
    if not at_once:
        return [[pair] for pair in pairs]
    rounds: list[list[tuple[str, str]]] = []
    for pair in pairs:
        free = (r for r in rounds if not any(set(pair) & set(other) for other in r))
        chosen = next(free, None)
        if chosen is None:
            rounds.append([pair])
        else:
            chosen.append(pair)
    return rounds


def matrix(results: dict[tuple[str, str], Run]) -> str:
    """One HTML page: a matrix host by host with the verdicts of each pair, and what each machine reports."""
    names = list(dict.fromkeys(name for pair in results for name in pair))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(
        f"<tr><th>{escape(sender)}</th>" + "".join(_cell(results.get((sender, to))) for to in names) + "</tr>"
        for sender in names
    )
    findings = "".join(
        f"<h2>{escape(' to '.join(pair))}</h2><ul>"
        + "".join(_finding(one) for one in run.machine["findings"])
        + "</ul>"
        for pair, run in results.items()
    )
    return (
        "<!doctype html><meta charset=utf-8><title>Races between hosts</title><style>body{font-family:sans-serif}"
        "td,th{border:1px solid #999;padding:.4em;vertical-align:top}table{border-collapse:collapse}</style>"
        f"<h1>Races between hosts</h1><p>A row sends, a column receives.</p><table><tr><th></th>{head}</tr>{rows}</table>{findings}"
    )


def _finding(one: dict[str, str]) -> str:
    return f"<li>{escape(one['severity'])}: {escape(one['what'])}; {escape(one['effect'])}</li>"


def _cell(run: Run | None) -> str:
    if run is None:
        return "<td></td>"
    lines = [
        f"{escape(one['contestant'])} {escape(one['kind'].replace('-', ' '))} ({one['ratio']:.3f})"
        f"<br><small>{escape(one['metric'])}, {escape(str(one['contest'].get('size', '')))} B</small>"
        for one in run.verdicts
    ]
    return f"<td>{'<br>'.join(lines) or escape('no verdict')}</td>"
