//! Virtual hosts, links and loads on one machine.
//!
//! A [`Testbed`] is a few hosts, each a network namespace, and a link between them, or several side by
//! side, each with an interface in every host. Unprivileged users need user namespaces, see [`enter_user_namespace`].
//!
//! From the top:
//!
//! * [`plan`] - the specification of a testbed.
//! * [`links`] - the links of a testbed, side by side.
//! * [`testbed`] - creation, and the measurements of the links.
//! * `interface` - a host's interface on a link: addresses, neighbours, routes.
//! * `kernel_queues` - what waits in the qdiscs of a kernel link, over time.
//! * `mptcp` - which addresses the kernel's Multipath TCP uses.
//! * [`host`] - a namespace, and the thread that starts its processes.
//! * `ports` - the ends of an emulated link.
//! * [`quota`] - CPU quota of a host.
//! * [`user`] - privileges.
//! * [`emulate`] - links in this process: crate `link` in real time, between TAP devices or packet
//!   sockets.
//! * [`calibrate`](mod@calibrate) - measures the empty link.
//! * [`load`] - load on hosts and on the link.
//! * [`error`] - errors.
//! * `netlink` - network configuration. `sys` - system calls that no library offers safely.
//!
//! Only descriptors and threads hold namespaces and devices, so they vanish with the process, and
//! testbeds do not interfere. Control groups and the folders of loads have names: a killed process
//! leaves them, and [`remove_leftovers`] removes them (`owned_folder`).

pub mod calibrate;
pub mod emulate;
pub mod error;
pub mod host;
mod interface;
mod kernel_queues;
pub mod links;
pub mod load;
mod mptcp;
mod netlink;
mod owned_folder;
pub mod plan;
mod ports;
pub mod quota;
mod sys;
pub mod testbed;
pub mod user;

pub use calibrate::{Calibration, calibrate};
pub use emulate::ether::EtherKind;
pub use emulate::link_report::LinkReport;
pub use error::{LinksError, TestbedError};
pub use host::{Host, INTERFACE, interface_name};
pub use links::{LINKS_MAX, Links};
pub use plan::{FrameMode, HostPlan, LinkEnds, LinkPlan, TestbedPlan};
pub use testbed::Testbed;
pub use user::{enter_user_namespace, is_privileged};

/// Removes the control groups and folders that killed processes have left.
pub fn remove_leftovers() {
    quota::sweep();
    load::scratch_folder::sweep();
}
