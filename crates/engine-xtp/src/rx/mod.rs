//! The receiving direction.

mod held;
mod receiving;

pub(crate) use held::Held;
pub(crate) use receiving::Receiving;
