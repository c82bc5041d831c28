"""The program as a child."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import towpath
from towpath._program import option_words


def test_script_of_the_wheel_is_the_program():
    said = subprocess.run([towpath.program(), "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"towpath {towpath.VERSION}\n"


def test_options_are_words():
    options = {"time": "2s", "no_control": True, "json": False, "seed": None, "workload": ["delay", "offered"]}
    assert option_words(options) == ["--time=2s", "--no-control", "--workload=delay,offered"]
    assert option_words({"label": {"a": 1, "b": "x"}}) == ["--label", "a=1", "--label", "b=x"]


def test_wrong_usage_is_a_value_error_with_the_line(monkeypatch):
    # Another race on this machine would be named in a line of its own.
    monkeypatch.setenv("TOWPATH_RACE_LOCK", "none")
    said = subprocess.run([towpath.program(), "race", "tcq"], capture_output=True, text=True)
    with pytest.raises(ValueError) as refused:
        towpath.race(["tcq"])
    assert f"towpath: {refused.value}" == said.stderr.strip()


def test_progress_is_passed_on(tmp_path):
    lines = []
    towpath.race(
        ["tcp"], sizes=[64], workload="throughput", time="1s", blocks=1, trial="50ms",
        out=tmp_path / "run", on_progress=lines.append, regardless=True,
    )
    assert any("trial" in line for line in lines), lines


def test_interrupt_ends_a_race_and_keeps_its_trials(tmp_path):
    out = tmp_path / "run"
    code = (
        "import sys, towpath\n"
        "try:\n"
        "    towpath.race(['tcp'], sizes=[64], workload='throughput', time='60s', trial='100ms', out=sys.argv[1],\n"
        "                 regardless=True)\n"
        "except KeyboardInterrupt as stopped:\n"
        "    print(stopped)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, out], stdout=subprocess.PIPE, text=True)
    wait_until(lambda: (out / "trials.jsonl").exists() and (out / "trials.jsonl").stat().st_size > 0)
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=60)
    assert str(out) in said, said
    run = towpath.read(out)
    assert run.trials and run.summary["status"] == "interrupted"


def test_race_ends_with_a_killed_interpreter(tmp_path):
    out = tmp_path / "run"
    code = "import sys, towpath; towpath.race(['tcp'], sizes=[64], time='60s', out=sys.argv[1], regardless=True)"
    child = subprocess.Popen([sys.executable, "-c", code, out])
    wait_until(lambda: (out / "trials.jsonl").exists())
    child.kill()
    child.wait()
    wait_until(lambda: not processes_with(str(out)))


def processes_with(word):
    """The command lines of processes that have this word."""
    lines = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                line = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if word in line:
                lines.append(line)
    return lines


def wait_until(condition):
    """Waits for a condition, however slow the machine; a test that hangs is ended by its runner."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come about within two minutes")
