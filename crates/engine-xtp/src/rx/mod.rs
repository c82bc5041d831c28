//! The receiving direction.

mod held;
mod receiving;

pub(crate) use held::{Held, Marks};
pub(crate) use receiving::Receiving;
