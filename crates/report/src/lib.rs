//! Reports of a result, for people and for other programs. Reads [`results::RunData`] only and
//! never runs anything.
//!
//! * [`html`] - one self-contained page: verdict, tables, charts, the host, how to reproduce it.
//! * [`table`] - tables and verdicts for a terminal.
//! * [`csv()`] - every trial as a row.
//! * [`compare_text`], [`compare_html`] - verdicts on two runs.
//! * [`curves_html`] - curves of a simulation or a study.
//!
//! Inside: `view` sorts a run into contestants and settings; `chart` has one file per kind of
//! chart; `page` fills `templates/report.html`; `terminal` and `export` are the text forms;
//! `quantity` formats numbers, `phrasing` verdicts and metrics; `verdict_summary` selects what is
//! said. Result files are untrusted input: every string is cleaned and escaped, every list shown is
//! bounded, and a non-finite number is a dash.
#![forbid(unsafe_code)]

mod chart;
mod export;
mod page;
mod phrasing;
mod quantity;
mod terminal;
mod verdict_summary;
mod view;

pub use export::csv;
pub use page::comparison::{OneSided, compare_html, compare_text};
pub use page::curves::{Curve, CurveFigure, CurveRow, Curves, curves_html};
pub use page::html;
pub use terminal::extra::Extra;
pub use terminal::table;
