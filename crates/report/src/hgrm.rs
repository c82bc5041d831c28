//! Histograms as text in the percentile form of HdrHistogram, `.hgrm`, which its plotters read.

use crate::page::charts::file_name;
use crate::{phrasing, quantity};
use results::{Cell, HistogramError, RunData, Status, Trial, new_histogram};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A histogram of a cell, merged over its valid trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HgrmFile {
    /// Workload, place, transport and histogram, as a file name without extension.
    pub name: String,
    /// The text: percentiles, their values in microseconds, and counts.
    pub text: String,
}

/// Percentiles in each halving of the distance to 100 %; what the plotters of HdrHistogram ask for.
const TICKS_PER_HALF_DISTANCE: u32 = 5;

/// Nanoseconds of a microsecond, in which values are written, as the plotters expect fractions.
const NS_PER_US: f64 = 1e3;

type Merged = hdrhistogram::Histogram<u64>;

/// A histogram of a cell, merged over its valid trials.
#[derive(Clone, Debug)]
pub struct CellHistogram {
    /// Which cell.
    pub cell: Cell,
    /// What was recorded, `delay`.
    pub name: String,
    /// Unit of its values.
    pub unit: String,
    /// The samples of all trials.
    pub samples: Merged,
}

/// The histograms of every cell as text. Those that are not in nanoseconds are passed over.
/// Errors are those of [`merged`].
pub fn hgrm(run: &RunData) -> Result<Vec<HgrmFile>, String> {
    let all = merged(run)?;
    let in_ns = all.iter().filter(|one| one.unit == "ns");
    let mut files: Vec<HgrmFile> = in_ns
        .map(|one| HgrmFile {
            name: name_of(&one.cell, &one.name),
            text: text(&one.samples),
        })
        .collect();
    number_duplicates(&mut files);
    Ok(files)
}

/// The histograms of every cell, each merged over the valid trials of its blocks; pilots and controls
/// are left out.
///
/// # Errors
///
/// A sentence when a histogram of the run is damaged.
pub fn merged(run: &RunData) -> Result<Vec<CellHistogram>, String> {
    let mut all: BTreeMap<(String, String, String), CellHistogram> = BTreeMap::new();
    for trial in run.trials.iter().filter(|trial| counts(trial)) {
        let cell = format!("{:?}", trial.cell.0);
        for (name, histogram) in &trial.histograms {
            let damaged =
                |error: HistogramError| format!("trial {}: histogram {name}: {error}", trial.index);
            let part = histogram.decode().map_err(damaged)?;
            let key = (cell.clone(), name.clone(), histogram.unit.clone());
            let whole = all.entry(key).or_insert_with(|| CellHistogram {
                cell: trial.cell.clone(),
                name: name.clone(),
                unit: histogram.unit.clone(),
                samples: new_histogram(),
            });
            whole.samples.add(&part).map_err(|error| {
                format!(
                    "trial {}: histogram {name} exceeds 60 s: {error:?}",
                    trial.index
                )
            })?;
        }
    }
    Ok(all.into_values().collect())
}

fn counts(trial: &Trial) -> bool {
    trial.status == Status::Ok && trial.block > 0 && !trial.control
}

/// `delay-at-64-b-tcp-delay`.
fn name_of(cell: &Cell, histogram: &str) -> String {
    let workload = quantity::spaced(&cell.workload());
    let place = phrasing::place(&cell.without(Cell::TRANSPORT));
    let transport = quantity::label(&cell.transport());
    file_name(&format!(
        "{workload} {place} {transport} {}",
        quantity::spaced(histogram)
    ))
}

/// Names that are the same once cut to their length get a number.
fn number_duplicates(files: &mut [HgrmFile]) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for file in files {
        let count = seen.entry(file.name.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            file.name = format!("{}-{count}", file.name);
        }
    }
}

/// The columns and the footer of `outputPercentileDistribution` of HdrHistogram's Java library.
fn text(histogram: &Merged) -> String {
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        total += step.count_since_last_iteration();
        let quantile = step.quantile_iterated_to();
        let value = step.value_iterated_to() as f64 / NS_PER_US;
        // Writing to a string cannot fail. The last line has no reciprocal.
        let _ = write!(text, "{value:12.3} {quantile:14.12} {total:10}");
        let _ = match quantile < 1.0 {
            true => writeln!(text, " {:14.2}", 1.0 / (1.0 - quantile)),
            false => writeln!(text),
        };
    }
    let mean = histogram.mean() / NS_PER_US;
    let deviation = histogram.stdev() / NS_PER_US;
    let max = histogram.max() as f64 / NS_PER_US;
    let buckets = buckets(histogram);
    let _ = write!(
        text,
        "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]\n\
         #[Max     = {max:12.3}, Total count    = {:12}]\n\
         #[Buckets = {:12}, SubBuckets     = {:12}]\n",
        histogram.len(),
        buckets,
        SUB_BUCKETS
    );
    text
}

/// Sub-buckets of a histogram of three significant digits: the power of two above 2 * 10^3.
const SUB_BUCKETS: u64 = 2048;

/// Buckets, each twice as wide as the one before, up to the largest value that can be recorded.
fn buckets(histogram: &Merged) -> u32 {
    let doublings = histogram.high().div_ceil(SUB_BUCKETS).max(1);
    doublings.next_power_of_two().trailing_zeros() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Value, quantile and count of a line.
    type Line = (f64, f64, u64);

    /// The lines, and the footer's numbers by name.
    fn read(text: &str) -> (Vec<Line>, BTreeMap<String, f64>) {
        let mut rows = Vec::new();
        let mut footer = BTreeMap::new();
        for line in text.lines().skip(2) {
            if let Some(line) = line.strip_prefix("#[") {
                for pair in line.trim_end_matches(']').split(',') {
                    let (name, value) = pair.split_once('=').expect("a pair");
                    let value = value.trim().parse().expect("a number");
                    footer.insert(name.trim().to_owned(), value);
                }
                continue;
            }
            let mut fields = line
                .split_whitespace()
                .map(|field| field.parse::<f64>().expect("a number"));
            let mut next = || fields.next().expect("three fields");
            rows.push((next(), next(), next() as u64));
        }
        (rows, footer)
    }

    #[test]
    fn hgrm_read_again_has_the_quantiles_of_the_histogram() {
        let mut histogram = new_histogram();
        for value in 1..=10_000u64 {
            histogram.record(value * 997).expect("within bounds");
        }
        let text = text(&histogram);
        assert!(
            text.starts_with("       Value     Percentile TotalCount 1/(1-Percentile)\n\n"),
            "{text}"
        );
        let (rows, footer) = read(&text);
        assert!(rows.len() > 30, "{} rows", rows.len());
        assert!(rows.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1 && a.2 <= b.2));
        for (value_us, quantile, total) in &rows {
            let value_ns = (value_us * 1e3).round() as u64;
            assert_eq!(
                *total,
                histogram.count_between(0, value_ns),
                "at {quantile}"
            );
            // The values are evenly spaced, and three digits are kept of each.
            let exact_us = (quantile * 10_000.0).ceil().max(1.0) * 0.997;
            let error = (value_us / exact_us - 1.0).abs();
            assert!(error < 2e-3, "{value_us} at {quantile}, not {exact_us}");
        }
        assert_eq!(rows.last().map(|row| (row.1, row.2)), Some((1.0, 10_000)));
        assert_eq!(footer["Total count"], 10_000.0);
        assert!((footer["Mean"] - 4_985.5).abs() < 5.0, "{footer:?}");
        assert_eq!(footer["SubBuckets"], 2048.0);
    }
}
