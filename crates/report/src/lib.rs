//! Reports of a result, for people and for other programs. Reads [`results::RunData`] only and
//! never runs anything.
//!
//! * [`html`] - one self-contained page: verdict, tables, charts, the host, how to reproduce it.
//! * [`table`] - tables and verdicts for a terminal; [`medians`] and [`verdicts`] - each alone.
//! * [`notes()`] - what stands in no table.
//! * [`rows`], [`csv()`] - every trial as a row; [`read()`] - a run whose summary is computed where it has none.
//! * [`merged`] - the histograms of each cell over its trials.
//! * `parquet` - runs and rows of sweeps as typed tables, with the feature of that name.
//! * [`hgrm()`] - histograms for HDR plotters.
//! * [`charts()`] - every chart of the page as SVG and CSV.
//! * [`compare_text`], [`compare_html`], [`compare_markdown`] - verdicts on two runs.
//! * [`history_text`], [`history_html`] - each cell over many runs.
//! * [`runs_html`] - a list of all results below a folder.
//! * [`curves_html`] - curves of a simulation.
//! * [`study_html`], [`studies_html`] - a paper's tables and charts with ours; the index of several.
//!
//! Inside: `view` sorts a run into contestants and settings; `chart` has one file per kind of
//! chart; `page` fills `templates/report.html`; `terminal` and `export` are the text forms;
//! `quantity` formats numbers, `phrasing` verdicts and metrics; `verdict_summary` selects what is
//! said, `turns` how trials ran. Result files are untrusted input: every string is cleaned and escaped, every list shown is
//! bounded, and a non-finite number is a dash.
#![forbid(unsafe_code)]

mod chart;
mod export;
mod hgrm;
mod notes;
mod page;
#[cfg(feature = "parquet")]
mod parquet;
mod phrasing;
mod quantity;
mod read;
mod terminal;
mod turns;
mod verdict_summary;
mod view;

pub use export::{Row, Value, csv, rows};
pub use hgrm::{CellHistogram, HgrmFile, hgrm, merged};
pub use notes::notes;
pub use page::charts::ChartFile;
pub use page::comparison::{OneSided, compare_html, compare_markdown, compare_text, plain};
pub use page::curves::{Curve, CurveFigure, CurveRow, Curves, curves_html};
pub use page::history::{HistoryRun, history_html, history_text};
pub use page::runs::{ListedRun, RunsPage, runs_html};
pub use page::study::{
    IndexPage, IndexStudy, StudyChart, StudyCurve, StudyExhibit, StudyFinding, StudyPage,
    studies_html, study_html,
};
pub use page::{charts, html};
#[cfg(feature = "parquet")]
pub use parquet::{ParquetFile, parquet, sweep_parquet};
pub use read::read;
pub use terminal::extra::Extra;
pub use terminal::{medians, table, verdicts};
