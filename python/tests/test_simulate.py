"""Simulations in process and by the program."""

import signal
import subprocess
import sys
import threading
import time

import pytest
import towpath
from tables import undocumented


def program(*words):
    return subprocess.run([towpath.program(), *map(str, words)], capture_output=True, text=True)


def test_simulate_equals_the_program_byte_for_byte(scenario):
    for seed in (1, 2):
        said = program("sim", "run", scenario, "--seed", seed, "--set", "messages=200", "--json")
        outcome = towpath.simulate(scenario, seed, messages=200)
        assert outcome.json == said.stdout
        assert outcome["seed"] == seed and outcome["total"]["settled"] == 200


def test_simulate_takes_text_and_nested_changes(scenario):
    text = open(scenario).read()
    changes = {"messages": 50, "traffic.0.length.fixed": 128}
    outcome = towpath.simulate(text, 3, **changes)
    assert outcome["changes"] == ["messages=50", "traffic.0.length.fixed=128"]
    assert outcome == towpath.simulate(scenario, 3, **changes)


def test_bad_input_is_the_line_of_the_program(scenario, tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text(open(scenario).read().replace('"ether10"', '"ether11"'))
    for words, call in [
        ((bad,), lambda: towpath.simulate(bad, 1)),
        ((scenario, "--set", "nothing.0=1"), lambda: towpath.simulate(scenario, 1, **{"nothing.0": 1})),
        ((scenario, "--set", "messages=many"), lambda: towpath.simulate(scenario, 1, messages="many")),
        ((tmp_path / "none.toml",), lambda: towpath.simulate(tmp_path / "none.toml", 1)),
    ]:
        said = program("sim", "run", *words)
        assert said.returncode == 2
        with pytest.raises(ValueError) as refused:
            call()
        assert f"towpath: {refused.value}" == said.stderr.strip()


def test_interpreter_is_released_while_a_scenario_runs(scenario):
    # The other thread runs Python while this one is in the simulator.
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    towpath.simulate(scenario, 1)
    during = counted[0] - before
    done.set()
    thread.join()
    assert during > 0


def test_interrupt_ends_a_simulation(scenario):
    code = (
        "import towpath, sys\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    towpath.simulate(sys.argv[1], 1, messages=10**12, time_limit='1000000 s')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, scenario], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert out == "interrupted\n" and child.returncode == 0


def test_sweep_gives_rows_of_all_points_and_seeds(scenario, tmp_path):
    out = tmp_path / "rows.jsonl"
    rows = towpath.sweep(scenario, {"messages": [20, 40]}, range(1, 3), out=out)
    assert [(row["changes"], row["seed"]) for row in rows] == [
        (["messages=20"], 1),
        (["messages=20"], 2),
        (["messages=40"], 1),
        (["messages=40"], 2),
    ]
    assert {row["build"] for row in rows} == {towpath.BUILD}
    alone = dict(towpath.simulate(scenario, 2, messages=40))
    assert {name: rows[3][name] for name in alone} == alone
    # What is in the file is not repeated.
    before = out.read_text()
    assert towpath.sweep(scenario, {"messages": [20, 40]}, range(1, 3), out=out) == rows
    assert out.read_text() == before


ENGINE = """
import json, sys
from towpath._towpath import BUILD, run_job
header = json.loads(sys.stdin.readline())
print(json.dumps({"ready": header["build"]}), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    row = run_job(job["key"], header["scenario"], job["changes"], job["seed"])
    if job["seed"] == BAD:
        row = CHANGE(row)
    for _ in range(2):
        print(json.dumps({"row": {"node": "here", "text": row}}), flush=True)
"""


def engine(tmp_path, bad=0, change="lambda row: row"):
    path = tmp_path / "engine.py"
    path.write_text(ENGINE.replace("BAD", str(bad)).replace("CHANGE", f"({change})"))
    return f"{sys.executable} {path}"


def test_rows_of_a_command_are_those_of_this_machine_and_written_once(scenario, tmp_path):
    here = towpath.sweep(scenario, {"messages": [20]}, range(1, 9), out=tmp_path / "here.jsonl")
    there = towpath.sweep(scenario, {"messages": [20]}, range(1, 9), out=tmp_path / "there.jsonl", on=engine(tmp_path))
    assert there == here
    lines = [sorted((tmp_path / name).read_text().splitlines()) for name in ("here.jsonl", "there.jsonl")]
    assert lines[0] == lines[1] and len(lines[0]) == 8


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("lambda row: row.replace('complete', 'stuck')", "not the row of this machine"),
        ("lambda row: row.replace(job['key'], '0' * 16)", "nobody asked for"),
        ("lambda row: row.replace(BUILD, '0.0.0-other')", "is of build 0.0.0-other"),
        ("lambda row: 'no row'", "no row"),
    ],
)
def test_wrong_row_of_a_command_is_refused(scenario, tmp_path, change, words):
    with pytest.raises(towpath.ProgramError, match=words):
        towpath.sweep(scenario, {"messages": [20]}, [1], on=engine(tmp_path, 1, change), out=tmp_path / "rows")


def test_command_that_ends_early_leaves_rows_for_the_next(scenario, tmp_path):
    ends = engine(tmp_path, 3, "lambda row: sys.exit()")
    with pytest.raises(towpath.ProgramError, match="2 of 4 rows missing"):
        towpath.sweep(scenario, {"messages": [20]}, range(1, 5), on=ends, out=tmp_path / "rows")
    rows = towpath.sweep(scenario, {"messages": [20]}, range(1, 5), out=tmp_path / "rows")
    assert [row["seed"] for row in rows] == [1, 2, 3, 4]


def test_command_that_is_none_is_wrong_usage(scenario):
    with pytest.raises(ValueError, match="ended before it was ready"):
        towpath.sweep(scenario, {"messages": [20]}, [1], on="no-such-engine")


def test_rows_as_parquet(scenario, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = towpath.sweep(scenario, {"messages": [20]}, range(1, 3), out=tmp_path / "rows.jsonl")
    done = program("export", tmp_path / "rows.jsonl", "--parquet", tmp_path / "tables")
    if "built without Parquet" in done.stderr:
        pytest.skip("SKIPPED: this program was built without Parquet")
    assert done.returncode == 0, done.stderr
    table = parquet.read_table(tmp_path / "tables" / "rows.parquet").to_pylist()
    by_key = {row["key"]: row for row in table}
    for row in rows:
        assert by_key[row["key"]]["total.settled"] == row["total"]["settled"]
        assert by_key[row["key"]]["elapsed_s"] == row["elapsed_s"]
    for file in (tmp_path / "tables").glob("*.parquet"):
        assert not undocumented(file.stem, parquet.read_schema(file).names), file
    stations = parquet.read_table(tmp_path / "tables" / "stations.parquet")
    assert stations.num_rows == sum(len(row["stations"]) for row in rows)


def test_study_is_run_and_judged(tmp_path):
    result = towpath.study("dcruz-1992/table-1", quick=True, out=tmp_path / "study")
    assert result["exhibits"]
    with pytest.raises(ValueError, match="no-such-study"):
        towpath.study("no-such-study")
