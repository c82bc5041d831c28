"""The program as a child process: races, sweeps, studies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._results import Run, read
from ._simulate import scenario_text, toml_value

OnProgress = Callable[[str], None]

# How long the program may take to end after an interrupt: a trial and its clean-up.
ENDING_S = 30.0


class ProgramError(RuntimeError):
    """The program failed; the text is the line it printed, `code` its exit code."""

    def __init__(self, line: str, code: int) -> None:
        super().__init__(line)
        self.code = code


def program() -> str:
    """The path of the program: $TOWPATH_PROGRAM, the script of this package, or the one on the PATH."""
    given = os.environ.get("TOWPATH_PROGRAM")
    if given:
        return given
    for folder in (sysconfig.get_path("scripts"), str(Path(sys.executable).parent)):
        script = Path(folder) / "towpath"
        if script.is_file():
            return str(script)
    found = shutil.which("towpath")
    if found is None:
        raise FileNotFoundError("no program towpath; install the wheel, or set TOWPATH_PROGRAM")
    return found


def race(
    contestants: Sequence[str],
    *,
    sizes: Iterable[int | str] | str | None = None,
    out: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Run:
    """Races contestants in processes of the program, and reads the result.

    Options are those of `towpath race`, `-` written `_`: `workload="delay"`, `time="10s"`, `no_control=True`,
    `label={"commit": "1f3a"}`. `on_progress` gets each line that the program says of its progress. Ctrl-C ends the
    race as at a terminal: what was measured is kept, and the KeyboardInterrupt says where.
    """
    words = ["race", *contestants, *option_words({"sizes": sizes, "out": out, **options})]
    lines = run(words, on_progress)
    folder = next((line[8:] for line in lines if line.startswith("result  ")), None)
    if folder is None:
        raise ProgramError("the program named no result", 1)
    return read(folder)


def sweep(
    scenario: str | os.PathLike[str],
    points: Mapping[str, Iterable[Any]] | None = None,
    seeds: range | Iterable[int] | str | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    on: str | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Runs a scenario at many points and seeds, and returns the rows in the order of their changes and seeds.

    With `out`, rows are appended to that file and runs that are in it are not repeated. `on` is where runs go:
    `"ray"`, `"ray:ADDRESS"`, or a command.
    """
    with tempfile.TemporaryDirectory(prefix="towpath-") as scratch:
        file: str | os.PathLike[str] = scenario
        if isinstance(scenario, str) and "\n" in scenario:
            file = Path(scratch) / "scenario.toml"
            Path(file).write_text(scenario_text(scenario)[1], encoding="utf-8")
        rows = Path(out) if out is not None else Path(scratch) / "rows.jsonl"
        axes = [f"{key}={','.join(toml_value(v) for v in values)}" for key, values in (points or {}).items()]
        words = ["sim", "sweep", os.fspath(file), "--out", str(rows)]
        for axis in axes:
            words += ["--points", axis]
        if seeds is not None:
            words += ["--seeds", seeds if isinstance(seeds, str) else ",".join(str(seed) for seed in seeds)]
        run([*words, *option_words({"on": on, **options})], on_progress)
        lines = rows.read_text(encoding="utf-8").splitlines() if rows.exists() else []
    return sorted((json.loads(line) for line in lines if line), key=lambda row: (row["changes"], row["seed"]))


def study(
    name: str,
    *,
    quick: bool = False,
    out: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Runs a study again, and returns its exhibits and findings: what `towpath study run --json` prints."""
    words = ["study", "run", name, "--json", *option_words({"quick": quick, "out": out, **options})]
    return json.loads("\n".join(run(words, on_progress)))


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Options as words: True is a flag, a mapping one word a key, a list joined by commas."""
    words: list[str] = []
    for key, value in options.items():
        name = "--" + key.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(name)
        elif isinstance(value, Mapping):
            words += [word for k, v in value.items() for word in (name, f"{k}={v}")]
        elif isinstance(value, (str, int, float, os.PathLike)):
            words.append(f"{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
        else:
            words.append(f"{name}={','.join(str(one) for one in value)}")
    return words


def run(words: Sequence[str], on_progress: OnProgress | None = None, env: Mapping[str, str] | None = None) -> list[str]:
    """Runs the program, which ends with this process however that ends; returns the lines it printed."""
    # The hidden command asks the kernel to end the program with its parent.
    line = [program(), "study-run", "--parent", str(os.getpid()), "--", *words]
    # A session of its own: a Ctrl-C at the terminal reaches this process alone, which passes it on once.
    child = subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        env=None if env is None else {**os.environ, **env},
    )
    printed: list[str] = []
    said: list[str] = []
    assert child.stdout is not None and child.stderr is not None
    reader = threading.Thread(target=lambda out: printed.extend(out.read().splitlines()), args=(child.stdout,))
    reader.start()
    try:
        for text in child.stderr:
            said.append(text.rstrip("\n"))
            if on_progress is not None:
                on_progress(said[-1])
        child.wait()
    except BaseException as stopped:
        _end(child)
        reader.join()
        kept = [text.strip() for text in printed if text.startswith("result  ")]
        if isinstance(stopped, KeyboardInterrupt) and kept:
            raise KeyboardInterrupt(f"stopped; what was measured is kept: {kept[0]}") from None
        raise
    finally:
        reader.join()
        child.stdout.close()
        child.stderr.close()
    if child.returncode != 0:
        raise _failure(said, child.returncode)
    return printed


def _end(child: subprocess.Popen[str]) -> None:
    """Ends the program as Ctrl-C does, and waits for it."""
    drain = threading.Thread(target=lambda: child.stderr and child.stderr.read())
    drain.start()
    child.send_signal(signal.SIGINT)
    try:
        child.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    drain.join()


def _failure(said: Sequence[str], code: int) -> Exception:
    """The error that the program's last line makes: wrong input is a ValueError."""
    own = [text.removeprefix("towpath: ") for text in said if text.startswith("towpath: ")]
    line = own[-1] if own else (said[-1] if said else f"the program ended with code {code}")
    return ValueError(line) if code == 2 else ProgramError(line, code)
