"""The examples of docs/python.md run, in their order, in one folder."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_examples_of_the_page_run(tmp_path, monkeypatch, run):
    for name in ("polars", "pandas"):
        pytest.importorskip(name)
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 4
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two-hosts.toml").write_text((ROOT / "studies/scenarios/two-hosts.toml").read_text())
    names = {}
    for block in blocks:
        # Those with `# on a cluster` need one; test_ray.py does what they do.
        if "# on a cluster" not in block:
            exec(compile(block, "docs/python.md", "exec"), names)
