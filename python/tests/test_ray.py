"""Sweeps and races on a real Ray of two nodes in this machine. Skipped, loudly, where there is no Ray."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import towpath
from test_program import processes_with, wait_until

try:
    import ray
    from ray.cluster_utils import Cluster
except ImportError:
    pytest.skip("SKIPPED: Ray is not installed; pip install ray", allow_module_level=True)


@pytest.fixture
def cluster():
    """Two nodes of one processor; sockets of Ray need a short path."""
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as scratch:
        node = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 * 2**20}
        # Ray writes the address of the last cluster here.
        os.makedirs("/tmp/ray", exist_ok=True)
        cluster = Cluster(initialize_head=True, head_node_args={**node, "temp_dir": scratch})
        node.pop("include_dashboard")
        cluster.second = cluster.add_node(**node)
        cluster.wait_for_nodes()
        try:
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


def connect(cluster):
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")


def test_rows_of_two_nodes_equal_those_of_this_machine(cluster, scenario, tmp_path):
    points, seeds = {"messages": [20, 40]}, range(1, 31)
    towpath.sweep(scenario, points, seeds, out=tmp_path / "here")
    towpath.sweep(scenario, points, seeds, out=tmp_path / "there", on=f"ray:{cluster.address}")
    rows = [sorted((tmp_path / name).read_text().splitlines()) for name in ("here", "there")]
    assert rows[0] == rows[1] and len(rows[0]) == 60


def test_node_removed_halfway_costs_no_row_and_doubles_none(cluster, scenario, tmp_path):
    out = tmp_path / "rows"
    words = ["sim", "sweep", scenario, "--points", "messages=20000", "--seeds", "1..24", "--out", out]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    sweep = subprocess.Popen(
        [towpath.program(), *words, "--on", f"ray:{cluster.address}"],
        stderr=subprocess.PIPE, text=True, env=environment,
    )
    wait_until(lambda: out.exists() and len(out.read_text().splitlines()) >= 4)
    cluster.remove_node(cluster.second, allow_graceful=False)
    said = sweep.communicate(timeout=300)[1]
    assert sweep.returncode == 0, said
    seeds = [row["seed"] for row in towpath.sweep(scenario, {"messages": [20000]}, range(1, 25), out=out)]
    assert seeds == list(range(1, 25)), said


def test_node_of_another_build_is_refused_by_name_or_takes_a_sent_wheel(cluster, scenario, tmp_path):
    # An older towpath comes first on the path of that node's workers.
    other = tmp_path / "other" / "towpath"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    (other / "_towpath.py").write_text("BUILD = '0.0.1-old'\n")
    cluster.remove_node(cluster.second)
    cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20, env_vars={"PYTHONPATH": str(tmp_path / "other")})
    cluster.wait_for_nodes()
    # Long enough that the first node does not do all of it before the other's workers are there.
    points, seeds = {"messages": [400000], "time_limit": ["100000 s"]}, range(1, 17)
    with pytest.raises(towpath.ProgramError, match=r"node \S+/[0-9a-f]{8}: towpath is of build 0.0.1-old"):
        towpath.sweep(scenario, points, seeds, on=f"ray:{cluster.address}", out=tmp_path / "rows")
    sent = towpath.sweep(scenario, points, seeds, on=f"ray:{cluster.address}", send=True, out=tmp_path / "sent")
    assert [row["seed"] for row in sent] == list(seeds)
    assert {row["build"] for row in sent} == {towpath._towpath.BUILD}


def test_nothing_is_left_when_the_driver_is_killed(cluster, scenario, tmp_path):
    out = tmp_path / "rows"
    words = ["sim", "sweep", scenario, "--points", "messages=100000", "--seeds", "1..50", "--out", out]
    sweep = subprocess.Popen([towpath.program(), *words, "--on", f"ray:{cluster.address}"])
    wait_until(lambda: processes_with("towpath.on_ray"))
    sweep.kill()
    sweep.wait()
    wait_until(lambda: not processes_with("towpath.on_ray"))


RACE = {"sizes": [64], "workload": "throughput", "time": "2s", "blocks": 1, "trial": "50ms", "no_report": True}


def test_races_on_two_nodes_of_a_machine_do_not_overlap(cluster, tmp_path):
    connect(cluster)
    runs = towpath.race_on(None, ["tcp"], out=tmp_path / "runs", **RACE)
    assert len(runs) == 2
    spans = sorted(
        (run.trials[0]["started_s"], run.trials[-1]["started_s"] + run.trials[-1]["span_s"]) for run in runs.values()
    )
    assert spans[0][1] <= spans[1][0]


def test_unknown_host_is_named_with_those_that_there_are(cluster, tmp_path):
    connect(cluster)
    with pytest.raises(ValueError, match="no node is called nowhere; there are"):
        towpath.race_on(["nowhere"], ["tcp"], out=tmp_path / "runs")


def test_wrong_usage_on_a_node_is_a_value_error_that_names_it(cluster, tmp_path):
    connect(cluster)
    with pytest.raises(ValueError, match="node .*tcq"):
        towpath.race_on(None, ["tcq"], out=tmp_path / "runs")


def test_race_between_agents_has_both_in_its_plan_and_leaves_nothing(cluster, tmp_path):
    connect(cluster)
    runs = towpath.race_between(None, ["tcp"], out=tmp_path / "runs", **RACE)
    assert len(runs) == 2
    for run in runs.values():
        command = run.plan["command"]
        ends = [command[command.index(option) + 1] for option in ("--from", "--to")]
        assert ends[0] != ends[1], command
        assert run.trials and all(trial["status"] == "ok" for trial in run.trials)
    assert "receives" in (tmp_path / "runs" / "index.html").read_text()
    wait_until(lambda: not processes_with("agent\0--listen"))
    assert not list(Path(tempfile.gettempdir()).glob("towpath-agent-*"))
