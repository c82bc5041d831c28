"""Simulations in this process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ._towpath import simulate as _simulate


class Outcome(dict[str, Any]):
    """The row of a simulated run; `json` is what `towpath sim run --json` prints, byte for byte."""

    def __init__(self, text: str) -> None:
        super().__init__(json.loads(text))
        self.json = text


def simulate(scenario: str | os.PathLike[str], seed: int | None = None, **changes: Any) -> Outcome:
    """Runs a scenario once, in this process, with the interpreter released.

    `scenario` is a file, or the text of one (several lines). `seed` is the scenario's when None. Changes are those of
    `--set`: `messages=100`, or `**{"traffic.0.length.fixed": 128}`.
    """
    name, text = scenario_text(scenario)
    return Outcome(_simulate(text, name, seed, change_words(changes)))


def scenario_text(scenario: str | os.PathLike[str]) -> tuple[str, str]:
    """The name and the text of a scenario."""
    if isinstance(scenario, str) and "\n" in scenario:
        return "scenario", scenario
    name = os.fspath(scenario)
    try:
        return name, Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"cannot read {name}: {error.strerror} (os error {error.errno})") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot read {name}: it is not UTF-8 text") from error


def change_words(changes: dict[str, Any]) -> list[str]:
    """Changes as `--set` has them."""
    return [f"{key}={toml_value(value)}" for key, value in changes.items()]


def toml_value(value: Any) -> str:
    """A value as TOML writes it; a string stands as it is."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(json.dumps(v) if isinstance(v, str) else toml_value(v) for v in value) + "]"
    if isinstance(value, dict):
        parts = (f"{k} = {json.dumps(v) if isinstance(v, str) else toml_value(v)}" for k, v in value.items())
        return "{ " + ", ".join(parts) + " }"
    return str(value)
