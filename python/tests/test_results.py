"""Reading results."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import towpath
from tables import undocumented


def test_race_gives_a_run_with_plan_trials_and_verdicts(run):
    assert run.plan["options"]["label.commit"] == "1f3a"
    assert {fact["group"] for fact in run.machine["facts"]} >= {"cpu", "kernel"}
    transports = {trial["cell"]["transport"] for trial in run.trials}
    assert transports == {"tcp", "udp"}
    assert run.verdicts == run.summary["verdicts"]
    assert {one["contestant"] for one in run.verdicts} == {"udp"}
    assert "tcp" in str(run)


def test_rows_equal_the_csv_of_the_program(run):
    said = subprocess.run([towpath.program(), "export", run.path], capture_output=True, text=True, check=True)
    table = list(csv.DictReader(io.StringIO(said.stdout)))
    rows = run.rows()
    assert len(rows) == len(table) == len(run.trials)
    for row, expected in zip(rows, table):
        shown = {name: csv_text(row.get(name)) for name in expected}
        assert shown == expected
        assert set(row) <= set(expected)


def csv_text(value):
    """A value as the CSV has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # Rust writes no exponents, and no fraction of a whole number.
        return f"{value:.20f}".rstrip("0").rstrip(".") if value == int(value) else _plain(value)
    return str(value)


def _plain(value):
    from decimal import Decimal

    return format(Decimal(repr(value)), "f")


def test_data_frames_have_a_row_a_trial(run):
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    rows = run.rows()
    frame = run.to_polars()
    assert isinstance(frame, polars.DataFrame) and frame.height == len(rows)
    assert frame["index"].to_list() == [row["index"] for row in rows]
    table = run.to_pandas()
    assert isinstance(table, pandas.DataFrame) and list(table["status"]) == [row["status"] for row in rows]


def test_histogram_has_percentiles_of_the_summary_and_merges(run):
    delay = run.histogram({"transport": "tcp", "size": 64}, "delay")
    cell = next(c for c in run.summary["cells"] if "delay" in c["samples"] and c["cell"]["transport"] == "tcp")
    assert delay.count == cell["samples"]["delay"]
    assert delay.unit == "ns"
    assert delay.percentile(50) / 1000 == pytest.approx(cell["quantiles"]["delay"]["0.5"])
    assert sum(count for _, count in delay.counts()) == delay.count
    both = delay.merge(run.histogram("udp"))
    assert both.count == delay.count + run.histogram("udp").count


def test_percentile_without_its_samples_is_none(run):
    delay = run.histogram("tcp")
    assert delay.count < 10**8
    assert delay.percentile(99.99999) is None
    with pytest.raises(ValueError, match="100"):
        delay.percentile(100)


def test_histogram_of_no_cell_names_those_that_there_are(run):
    with pytest.raises(ValueError, match="transport=tcp"):
        run.histogram("quic")


def test_chart_is_svg_and_report_is_a_page(run, tmp_path):
    chart = run.chart(run.charts[0])
    assert chart._repr_svg_().startswith("<svg") and chart.csv
    assert run.report(tmp_path / "page.html").startswith("<!")
    assert (tmp_path / "page.html").read_text() == run.report()
    with pytest.raises(ValueError, match=run.charts[0]):
        run.chart("no such chart")


def test_folder_cut_at_any_octet_is_read_or_refused(run, tmp_path):
    whole = {file.name: file.read_bytes() for file in run.path.iterdir() if file.is_file()}
    for name in ("plan.toml", "machine.json", "trials.jsonl", "summary.json"):
        octets = whole[name]
        for cut in range(0, len(octets), max(1, len(octets) // 40)):
            folder = tmp_path / f"{name}-{cut}"
            folder.mkdir()
            for other in ("plan.toml", "machine.json", "trials.jsonl", "summary.json"):
                (folder / other).write_bytes(octets[:cut] if other == name else whole[other])
            try:
                read = towpath.read(folder)
                assert len(read.rows()) <= len(run.rows())
            except ValueError as refused:
                assert name in str(refused)


def test_folder_that_is_none_is_a_value_error(tmp_path):
    with pytest.raises(ValueError, match="plan.toml"):
        towpath.read(tmp_path)


def test_types_are_marked():
    package = Path(towpath.__file__).parent
    assert (package / "py.typed").exists() and (package / "_towpath.pyi").exists()


def test_parquet_equals_the_csv(run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    done = subprocess.run(
        [towpath.program(), "export", run.path, "--parquet", tmp_path], capture_output=True, text=True
    )
    if "built without Parquet" in done.stderr:
        assert done.returncode == 2
        pytest.skip("SKIPPED: this program was built without Parquet")
    assert done.returncode == 0, done.stderr
    table = parquet.read_table(tmp_path / "trials.parquet")
    rows = [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]
    assert {row.pop("run") for row in rows} == {str(run.path)}
    assert rows == run.rows()
    metadata = {key.decode(): value for key, value in table.schema.metadata.items()}
    assert json.loads(metadata[f"towpath.plan.{run.path}"]) == run.plan
    verdicts = parquet.read_table(tmp_path / "verdicts.parquet").to_pylist()
    assert [v["ratio"] for v in verdicts if v["of"] == "contest"] == [v["ratio"] for v in run.verdicts]
    points = sum(len(series["values"]) for trial in run.trials for series in trial.get("series", {}).values())
    assert parquet.read_table(tmp_path / "series.parquet").num_rows == points
    for file in tmp_path.glob("*.parquet"):
        assert not undocumented(file.stem, parquet.read_schema(file).names), file
    histograms = parquet.read_table(tmp_path / "histograms.parquet").to_pylist()
    assert len(histograms) == sum(len(trial.get("histograms", {})) for trial in run.trials)


def test_package_imports_no_data_frames():
    code = "import towpath, sys; assert not {'pandas', 'polars', 'ray', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
