"""A race that all tests read, and where the scenarios are."""

from pathlib import Path

import pytest
import towpath

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def scenario() -> str:
    """A scenario that ships with the project."""
    return str(ROOT / "studies" / "scenarios" / "two-hosts.toml")


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> towpath.Run:
    """A short race of tcp and udp."""
    out = tmp_path_factory.mktemp("race") / "run"
    return towpath.race(
        ["tcp", "udp"],
        sizes=[64],
        workload=["throughput", "delay"],
        time="3s",
        blocks=2,
        trial="100ms",
        out=out,
        label={"commit": "1f3a"},
        regardless=True,
    )
