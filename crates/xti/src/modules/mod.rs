//! Modules for streams over a provider of TPI.
//!
//! * `tirdwr` - read and write instead of the functions of XTI.
//! * `timod` - requests of a stream head (I_STR) instead of primitives.

mod timod;
mod tirdwr;

pub use timod::{Timod, command};
pub use tirdwr::Tirdwr;
