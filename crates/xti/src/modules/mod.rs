//! Modules for streams over a provider of TPI.
//!
//! * `tirdwr` - read and write instead of the functions of XTI.
//! * `sockmod` - the state of a socket, for a socket library.
//! * `timod` - requests of a stream head (I_STR) instead of primitives.

mod sockmod;
mod timod;
mod tirdwr;

pub use sockmod::{SocketData, Sockmod, command as sockmod_command, so_state, state_and_params};
pub use timod::{Timod, command};
pub use tirdwr::Tirdwr;
