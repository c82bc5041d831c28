//! Histograms: samples of one unit, which can be merged.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Samples by value, to three significant digits.
#[pyclass(frozen, module = "towpath")]
pub struct Histogram {
    unit: String,
    samples: hdrhistogram::Histogram<u64>,
}

impl Histogram {
    /// Of a run's samples.
    pub fn new(unit: &str, samples: &hdrhistogram::Histogram<u64>) -> Histogram {
        Histogram {
            unit: unit.to_owned(),
            samples: samples.clone(),
        }
    }
}

#[pymethods]
impl Histogram {
    /// Unit of the values.
    #[getter]
    fn unit(&self) -> &str {
        &self.unit
    }

    /// Number of samples.
    #[getter]
    fn count(&self) -> u64 {
        self.samples.len()
    }

    /// Mean; None without samples.
    #[getter]
    fn mean(&self) -> Option<f64> {
        (!self.samples.is_empty()).then(|| self.samples.mean())
    }

    /// Smallest value; None without samples.
    #[getter]
    fn min(&self) -> Option<u64> {
        (!self.samples.is_empty()).then(|| self.samples.min())
    }

    /// Largest value; None without samples.
    #[getter]
    fn max(&self) -> Option<u64> {
        (!self.samples.is_empty()).then(|| self.samples.max())
    }

    /// The value below which `percent` of the samples lie. None when there are fewer than 10 / (1 - q)
    /// samples, where a percentile would say little.
    fn percentile(&self, percent: f64) -> PyResult<Option<u64>> {
        if !(0.0..100.0).contains(&percent) {
            return Err(PyValueError::new_err(format!(
                "{percent} is no percentile; use at least 0 and less than 100, or max"
            )));
        }
        let needed = samples::samples_needed(percent / 100.0);
        let enough = self.samples.len() >= needed;
        Ok(enough.then(|| self.samples.value_at_percentile(percent)))
    }

    /// The samples of both.
    fn merge(&self, other: &Histogram) -> PyResult<Histogram> {
        if self.unit != other.unit {
            return Err(PyValueError::new_err(format!(
                "one histogram is in {}, the other in {}; merge those of one unit",
                self.unit, other.unit
            )));
        }
        let mut both = Histogram::new(&self.unit, &self.samples);
        let added = both.samples.add(&other.samples);
        added.map_err(|error| PyValueError::new_err(format!("{error:?}")))?;
        Ok(both)
    }

    /// Values and their counts, ascending: the upper end of each range of equal values.
    fn counts(&self) -> Vec<(u64, u64)> {
        let recorded = self.samples.iter_recorded();
        recorded
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect()
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.samples.len()).unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        format!("<Histogram of {} samples in {}>", self.count(), self.unit)
    }
}
