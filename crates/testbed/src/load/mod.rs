//! Load on hosts and on the link.
//!
//! * [`task`] - the parts of the artificial workload, each a piece of work of fixed size.
//! * [`worker`] - a copy of it: a process that goes round its parts without a pause.
//! * [`host_load`] - copies in a host, started together, asked now and then how far they are.
//! * [`link_load`] - other pairs of hosts that send over the same link.
//! * [`folder`] - where copies keep their files, and what becomes of those left behind.
//!
//! The workload is that of Cabrera, Hunter, Karels and Mosher (1984), section 3.5: a compilation,
//! a processor job, text formatting, an editing session, the copying of a file of 60,000 octets,
//! and programs that tell the system's status.

pub mod host_load;
pub mod link_load;
pub mod scratch_folder;
pub mod task;
pub mod worker;

pub use host_load::{HostLoad, LoadProgress};
pub use link_load::LinkLoad;
pub use task::LoadTask;
