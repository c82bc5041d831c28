//! Hosts, links and loads in one machine.
//!
//! A [`Testbed`] is a few hosts, each a network namespace with an interface, and a link between
//! them. An ordinary user can have one where the kernel allows user namespaces, see
//! [`enter_user_namespace`].
//!
//! From the top:
//!
//! * [`plan`] - what a testbed is asked to be.
//! * [`testbed`] - making it: interfaces, addresses, who is where.
//! * [`host`] - a namespace, and the thread that lives in it and starts its processes.
//! * `ports` - the ends of an emulated link.
//! * [`quota`] - a part of the processors for a host.
//! * [`user`] - being allowed to.
//! * [`emulate`] - the link in this process: crate `link` paced by the clock, between TAP devices
//!   or packet sockets.
//! * [`calibrate`](mod@calibrate) - what the empty link does, beside what it was told to do.
//! * [`load`] - load on hosts and on the link.
//! * [`error`] - why there is none.
//! * `netlink` - what is asked of the kernel. `sys` - the system calls no library offers safely.
//!
//! Nothing has a name outside: namespaces and devices are held by descriptors and threads, so that
//! they are gone with the process, however it ends, and two testbeds never meet.

pub mod calibrate;
pub mod emulate;
pub mod error;
pub mod host;
pub mod load;
mod netlink;
pub mod plan;
mod ports;
pub mod quota;
mod sys;
pub mod testbed;
pub mod user;

pub use calibrate::{Calibration, calibrate};
pub use emulate::ether::EtherKind;
pub use emulate::link_thread::LinkReport;
pub use error::TestbedError;
pub use host::{Host, INTERFACE};
pub use plan::{FrameMode, HostPlan, LinkPlan, TestbedPlan};
pub use testbed::Testbed;
pub use user::{enter_user_namespace, is_privileged};
