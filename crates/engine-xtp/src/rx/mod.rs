//! The receiving direction.

mod reassembly_queue;
mod receive_state;

pub(crate) use reassembly_queue::{FragmentFlags, ReassemblyQueue};
pub(crate) use receive_state::{Gap, ReceiveState};
