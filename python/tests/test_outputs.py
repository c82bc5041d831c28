"""What other programs read: histograms of HDR plotters, and OpenMetrics."""

import re
import shutil
import subprocess
import urllib.request

import pytest
import towpath


def test_hgrm_read_again_has_the_percentiles_of_the_run(run, tmp_path):
    subprocess.run([towpath.program(), "export", run.path, "--hgrm", tmp_path], check=True, capture_output=True)
    files = list(tmp_path.glob("*.hgrm"))
    delay = run.histogram({"transport": "tcp", "size": 64}, "delay")
    [file] = [file for file in files if "tcp" in file.name]
    rows, totals = hgrm(file.read_text())
    assert totals["Total count"] == rows[-1][2] == delay.count
    assert [row[1] for row in rows] == sorted(row[1] for row in rows) and rows[-1][1] == 1
    below, up_to, so_far = {}, {}, 0
    for value_ns, count in delay.counts():
        below[value_ns] = so_far
        so_far += count
        up_to[value_ns] = so_far
    for value_us, share, count in rows:
        value_ns = round(value_us * 1000)
        assert count == up_to[value_ns]
        # A percentile is the first value that so many samples do not exceed. Text rounds the share to 12 digits.
        assert below[value_ns] / delay.count < share + 1e-9 and share <= count / delay.count + 1e-9
        # Rounded, it may lie on either side of where a value ends; None where there are too few samples for it.
        around = [delay.percentile(100 * at) for at in (share - 1e-6, share, share + 1e-6) if 0 <= at < 1]
        if share < 1 and None not in around:
            assert min(around) * 0.99 <= value_ns <= max(around) * 1.01


def hgrm(text):
    """Rows of value, share and count; the figures of the last lines."""
    row = re.compile(r"\s*([\d.]+)\s+([\d.]+)\s+(\d+)(?:\s+[\d.]+)?$")
    rows = [(float(m[1]), float(m[2]), int(m[3])) for m in map(row.match, text.splitlines()) if m]
    totals = {m[1]: float(m[2]) for m in re.finditer(r"(\w[\w ]*\w)\s*=\s*([\d.]+)", text)}
    return rows, totals


def test_prometheus_parses_the_metrics_of_a_race_that_has_not_ended(run, tmp_path):
    parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="SKIPPED: no prometheus_client")
    for name in ("plan.toml", "machine.json"):
        shutil.copy(run.path / name, tmp_path)
    lines = (run.path / "trials.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "trials.jsonl").write_text("".join(lines[:-1]))
    watch = subprocess.Popen(
        [towpath.program(), "watch", tmp_path, "--metrics", "127.0.0.1:0"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )
    try:
        address = re.search(r"http://\S+/metrics", next(line for line in watch.stderr if "http://" in line))[0]
        # The address is one that the program itself has just named, on the loopback.
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            text = answer.read().decode()
    finally:
        watch.kill()
        watch.wait()
    families = list(parser.text_string_to_metric_families(text))
    samples = [sample for family in families for sample in family.samples]
    assert all(family.documentation for family in families)
    assert {sample.name: sample.value for sample in samples}["towpath_watch_trials"] == len(run.trials) - 1
