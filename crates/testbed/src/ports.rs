//! The ends of an emulated link, one in each host: TAP devices or packet sockets.

use crate::emulate::lane::Port;
use crate::error::TestbedError;
use crate::host::{Host, INTERFACE};
use crate::netlink::{self, Netlink, Settings};
use crate::plan::{HostPlan, Plan};
use crate::sys::{self, Offloads};
use crate::testbed::{settle, within};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use wire_ether::Interface;
use wire_ether::packet::{self, Opening, Outgoing};

/// Number of the namespace in the middle, which no host has.
const MIDDLE: u32 = 0xffff;

/// Ports, in the order of the hosts.
pub(crate) struct Ports {
    pub(crate) ports: Vec<Port>,
    /// The namespace that holds the other ends of the hosts' interfaces, where there are any.
    pub(crate) middle: Option<Host>,
}

impl Ports {
    /// A TAP device in each host.
    pub(crate) fn taps(
        hosts: &[Host],
        plan: &Plan,
        super_frames: bool,
    ) -> Result<Ports, TestbedError> {
        let offloads = if super_frames {
            Offloads::Full
        } else {
            Offloads::None
        };
        let mut ports = Vec::new();
        for host in hosts {
            let opened = host.run(move || sys::open_tap(INTERFACE, offloads));
            let device = opened
                .and_then(|opened| opened)
                .map_err(TestbedError::Tap)?;
            ports.push(Port::new(device));
            settle(host, plan, None)?;
        }
        let middle = None;
        Ok(Ports { ports, middle })
    }

    /// In each host one end of a pair of virtual interfaces; at the other ends, in a namespace in
    /// the middle, packet sockets.
    pub(crate) fn sockets(hosts: &[Host], plan: &Plan) -> Result<Ports, TestbedError> {
        let middle = Host::create(&HostPlan::new("middle"), MIDDLE)?;
        within(&middle, "IPv6", || {
            let folder = "/proc/sys/net/ipv6/conf/default";
            if fs::metadata(folder).is_err() {
                // A kernel without IPv6 sends nothing of it.
                return Ok(());
            }
            fs::write(format!("{folder}/disable_ipv6"), "1")
        })?;
        let mut ports = Vec::new();
        for (number, host) in hosts.iter().enumerate() {
            ports.push(socket(host, number, &middle, plan)?);
        }
        let middle = Some(middle);
        Ok(Ports { ports, middle })
    }
}

fn socket(host: &Host, number: usize, middle: &Host, plan: &Plan) -> Result<Port, TestbedError> {
    let name = format!("port{number}");
    let other = middle.namespace().try_clone_to_owned();
    let other = other.map_err(TestbedError::kernel("a second descriptor of a namespace"))?;
    let peer = name.clone();
    within(host, "the interface", move || {
        netlink::add_veth(&mut Netlink::open()?, INTERFACE, &peer, other.as_fd())?;
        sys::single_frames(INTERFACE)
    })?;
    let settings = Settings {
        mtu: Some(plan.mtu),
        ..Settings::default()
    };
    let device = within(middle, "the port", move || {
        netlink::set(&mut Netlink::open()?, &name, settings)?;
        open_packet(&name)
    })?;
    settle(host, plan, None)?;
    within(host, "the interface", || {
        crate::testbed::await_running(&mut Netlink::open()?)
    })?;
    Ok(Port::new(device))
}

/// Octets of frames that may wait to be read: as many full frames as a device's queue holds.
const BACKLOG: usize = 32 << 20;

/// Opens a socket that reads what arrives at the interface called `name` of the calling thread's
/// network namespace and sends what is written, whole frames, without blocking.
fn open_packet(name: &str) -> io::Result<OwnedFd> {
    let opening = Opening {
        ethertype: packet::EVERY,
        port: None,
        outgoing: Outgoing::Ignored,
        stamped: false,
        receive_buffer: Some(BACKLOG),
        nonblocking: true,
    };
    let (socket, _) = packet::open(&Interface::find(name)?, &opening)?;
    Ok(socket)
}
