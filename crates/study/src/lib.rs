//! Published experiments as data: what a paper shows and says, the runs that measure it again, and
//! both judged side by side. No code here knows a study by name.
//!
//! 1. [`form`] reads a study: `study.toml`, CSV files and `page.md` of one folder. [`shipped`] has
//!    those of this repository.
//! 2. [`folder`] is the result of a study: the folders of its runs, and what is known of each.
//! 3. [`outcome`] reads a run's folder as points with values for each seed or block.
//! 4. [`judge`] sets the figures beside the printed ones, and checks the sentences.
//! 5. [`json`] is all of it for other programs.
//!
//! Nothing here starts a run: `towpath study` does, with the commands' own parsers.
#![forbid(unsafe_code)]

pub mod folder;
pub mod form;
pub mod json;
pub mod judge;
pub mod outcome;
pub mod shipped;

pub use form::Study;
