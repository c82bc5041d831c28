//! What a run's folder says, for people and for other programs. Reads [`results::RunData`] only;
//! never runs anything.
//!
//! * [`html`] - one self-contained page: verdict, tables, charts, the host, how to repeat it.
//! * [`table`] - the same in short, for a terminal.
//! * [`csv()`] - every trial as a row.
//! * [`compare_text`], [`compare_html`] - verdicts on two runs.
//! * [`curves_html`] - curves of a simulation or a study.
//!
//! Inside: `view` sorts a run into contestants and settings; `chart` draws one kind of picture a
//! file; `page` fills `templates/report.html`; `terminal` and `export` are the short forms;
//! `quantity` knows how numbers are written and `words` how verdicts are said. Files may come from
//! a stranger: every string is cleaned and escaped, every list shown is bounded, and a number that
//! is not finite is a dash.
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
pub use page::comparison::{compare_html, compare_text};
pub use page::curves::{Curve, CurveFigure, CurveRow, Curves, curves_html};
pub use page::html;
pub use terminal::table;
