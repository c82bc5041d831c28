"""Towpath: results of races, simulations, and the program that measures, from Python.

`read` opens the folder of a run. `simulate` runs a scenario in this process. `race`, `sweep` and `study` start
the program, which measures in processes of its own, and read what it wrote. `race_on` and `race_between` do so on
the machines of a Ray cluster. Bad input is a ValueError with the line that the program prints.
"""

from ._program import ProgramError, program, race, study, sweep
from ._results import Chart, Run, read
from ._simulate import Outcome, simulate
from ._towpath import BUILD, VERSION, Histogram
from .hosts import race_between, race_on

__version__ = VERSION
__all__ = [
    "BUILD",
    "Chart",
    "Histogram",
    "Outcome",
    "ProgramError",
    "Run",
    "program",
    "race",
    "race_between",
    "race_on",
    "read",
    "simulate",
    "study",
    "sweep",
]
