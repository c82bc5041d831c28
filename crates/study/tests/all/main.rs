//! Studies as data: the form, figures and findings judged, hostile files.

mod form;
#[path = "../../../../fuzz/src/study.rs"]
mod fuzzed;
mod hostile;
mod judged;
mod shipped;
mod support;
#[path = "../../../../fuzz/src/text.rs"]
mod text;
