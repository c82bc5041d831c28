//! Load on hosts and on the link.
//!
//! * [`task`] - the tasks of the artificial workload, each of fixed size.
//! * [`worker`] - a process that repeats its tasks without pause.
//! * [`host_load`] - such processes in a host, with their progress.
//! * [`link_load`] - cross traffic of other pairs of hosts.
//! * [`scratch_folder`] - working folders, and removal of abandoned ones.
//!
//! The workload is that of Cabrera, Hunter, Karels and Mosher (1984), section 3.5: a compilation, a
//! CPU-bound job, text formatting, an editing session, copying a file of 60,000 octets, and system
//! status commands.

pub mod host_load;
pub mod link_load;
pub mod scratch_folder;
pub mod task;
pub mod worker;

pub use host_load::{HostLoad, LoadProgress};
pub use link_load::LinkLoad;
pub use task::LoadTask;
