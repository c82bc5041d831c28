"""The columns that docs/schema promises."""

from conftest import ROOT


def undocumented(table, names):
    """Those of the names that the table's section does not have."""
    text = (ROOT / "docs" / "schema" / "v1" / "columns.md").read_text()
    [section] = [part for part in text.split("\n## ") if f"`{table}.parquet`" in part.splitlines()[0]]
    rows = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
    groups = tuple(name[:-1] for name in rows if name.endswith(".*"))
    assert rows, table
    return [name for name in names if name not in rows and not name.startswith(groups)]
