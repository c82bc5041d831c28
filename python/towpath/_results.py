"""Results: the folder of a run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ._towpath import Histogram, RunFolder


def read(folder: str | os.PathLike[str]) -> Run:
    """The run in a folder. Nothing of it is executed, and its size is bounded.

    A run that was killed has the summary of what it measured. A ValueError says what is wrong with a folder.
    """
    return Run(folder)


@dataclass(frozen=True)
class Chart:
    """A chart of the report; a notebook shows it."""

    name: str
    svg: str
    csv: str

    def _repr_svg_(self) -> str:
        return self.svg


class Run:
    """A run: its plan, machine, trials and summary, as docs/schema describes them."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder)
        self._folder = RunFolder(self.path)

    @cached_property
    def plan(self) -> dict[str, Any]:
        """Parameters, with seed and command line."""
        return json.loads(self._folder.plan())

    @cached_property
    def machine(self) -> dict[str, Any]:
        """Facts and findings about the hosts."""
        return json.loads(self._folder.machine())

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Estimates and verdicts."""
        return json.loads(self._folder.summary())

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """The verdicts on each contest, those of the summary."""
        return self.summary["verdicts"]

    @cached_property
    def trials(self) -> list[dict[str, Any]]:
        """Every trial, in the order they ran."""
        return json.loads(self._folder.trials())

    @property
    def missing_trials(self) -> str | None:
        """A sentence when the file of the trials was cut off."""
        return self._folder.missing_trials()

    def rows(self) -> list[dict[str, Any]]:
        """A flat dict a trial, with the names of `towpath export`'s columns; what a trial lacks is not in it."""
        return self._folder.rows()

    def _columns(self) -> dict[str, list[Any]]:
        rows = self.rows()
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def to_polars(self) -> Any:
        """The rows as a polars.DataFrame; polars is imported when this is called."""
        import polars

        return polars.DataFrame(self._columns(), strict=False)

    def to_pandas(self) -> Any:
        """The rows as a pandas.DataFrame; pandas is imported when this is called."""
        import pandas

        return pandas.DataFrame(self._columns())

    def histogram(self, cell: Mapping[str, Any] | str, name: str = "delay") -> Histogram:
        """The histogram of one cell, merged over its valid trials.

        `cell` has as many factors as tell it apart, `{"transport": "tcp", "size": 64}`; a word is a transport.
        """
        factors = {"transport": cell} if isinstance(cell, str) else cell
        return self._folder.histogram({k: str(v) for k, v in factors.items()}, name)

    @cached_property
    def _charts(self) -> dict[str, Chart]:
        return {chart[0]: Chart(*chart) for chart in self._folder.charts()}

    @property
    def charts(self) -> list[str]:
        """The names of the report's charts."""
        return list(self._charts)

    def chart(self, name: str) -> Chart:
        """A chart by its name, or by a part that only one name has."""
        exact = self._charts.get(name)
        found = [exact] if exact else [c for n, c in self._charts.items() if name in n]
        if len(found) != 1:
            count = "no chart has" if not found else f"{len(found)} charts have"
            raise ValueError(f"{count} the name {name!r}; there are: {', '.join(self.charts) or 'none'}")
        return found[0]

    def report(self, out: str | os.PathLike[str] | None = None) -> str:
        """The report as one HTML page; also written to `out`, if given."""
        page = self._folder.report()
        if out is not None:
            Path(out).write_text(page, encoding="utf-8")
        return page

    def __str__(self) -> str:
        return self._folder.table(100).rstrip()

    def __repr__(self) -> str:
        return f"<Run {str(self.path)!r}>"
