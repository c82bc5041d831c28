//! What the numbers of a run say, and how sure that is.
//!
//! Trials come in, a summary comes out; in between is nothing but arithmetic. No file is read,
//! no clock asked, nothing printed, and the same trials give the same summary on every machine.
//! `docs/method.md` explains every method here in plain words.
//!
//! Where to start reading:
//!
//! * [`summary`] - from the trials of a run to its [`results::Summary`]; calls all the others.
//! * [`verdict`] - faster, slower, equal or not enough data, at a stated level over a whole run.
//! * [`mean`] and [`holm`] - the two pieces a verdict is made of.
//! * [`because`] and [`words`] - the same verdict for people.
//! * [`steady`], [`series`], [`mod@pilot`] - inside one trial: warm-up, noise, how long is enough.
//! * [`fit`] and [`crossover`] - what a message costs as a function of its size.
//! * [`knee`] - the largest offered load a transport still carries.
//! * [`mod@compare`] - two runs instead of two transports.
//! * [`distribution`], [`estimate`], [`bootstrap`] - the small parts.
#![forbid(unsafe_code)]

pub mod bootstrap;
pub mod compare;
pub mod contests;
pub mod crossover;
pub mod distribution;
pub mod estimate;
pub mod explanation;
pub mod fit;
pub mod holm;
pub mod knee;
pub mod mean;
pub mod phrasing;
pub mod pilot;
pub mod race;
pub mod series;
pub mod steady;
pub mod summary;
pub mod verdict;
pub mod warnings;

pub use compare::{compare, worse_than};
pub use knee::{Knee, knees};
pub use phrasing::sentence;
pub use pilot::{Bound, Pilot, PrecisionTarget, pilot};
pub use race::{Judgement, is_look, judge_race};
pub use steady::{Steady, steady_state};
pub use summary::summarise;
