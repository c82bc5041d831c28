//! What Python gets from the crates: the extension module `towpath._towpath`, which the package
//! `towpath` wraps.
//!
//! * `run` - a result's folder: rows, histograms, charts, the report.
//! * `histogram` - samples that can be merged, with percentiles under the sample rule.
//! * `simulate` - a scenario in this process, the interpreter released.
//!
//! Races never run here: the package starts the program for them.

mod histogram;
mod run;
mod simulate;

use pyo3::prelude::*;

/// The module.
#[pymodule]
fn _towpath(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("BUILD", scenario::sweep::BUILD)?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<run::RunFolder>()?;
    module.add_class::<histogram::Histogram>()?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::run_job, module)?)
}
