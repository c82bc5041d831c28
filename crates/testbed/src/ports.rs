//! The ends of an emulated link, one in each host: TAP devices or packet sockets.

use crate::emulate::link_thread::Port;
use crate::error::TestbedError;
use crate::host::{Host, interface_name};
use crate::interface::{LinkInterface, await_running, run_in_host};
use crate::netlink::{self, InterfaceConfig, Netlink};
use crate::plan::{HostPlan, TestbedPlan};
use crate::sys::{self, TapOffloads};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use wire_ether::Interface;
use wire_ether::packet::{self, OutgoingFrames, PacketSocketOptions};

/// Number of the switch namespace; no host has it.
const SWITCH_NUMBER: u32 = 0xffff;

/// The ports in the order of the hosts.
pub(crate) struct Ports {
    pub(crate) ports: Vec<Port>,
    /// The switch: the namespace with the other ends of the hosts' veth pairs, if any.
    pub(crate) switch: Option<Host>,
}

impl Ports {
    /// A TAP device in each host, for link number `link`.
    pub(crate) fn taps(
        hosts: &[Host],
        plan: &TestbedPlan,
        link: usize,
        super_frames: bool,
    ) -> Result<Ports, TestbedError> {
        let offloads = if super_frames {
            TapOffloads::Full
        } else {
            TapOffloads::None
        };
        let mut ports = Vec::new();
        for host in hosts {
            let name = interface_name(link);
            let opened = host.run(move || sys::open_tap(&name, offloads));
            let device = opened
                .and_then(|opened| opened)
                .map_err(TestbedError::Tap)?;
            ports.push(Port::new(device));
            LinkInterface { host, plan, link }.configure(None)?;
        }
        let switch = None;
        Ok(Ports { ports, switch })
    }

    /// A veth pair for each host; packet sockets at the other ends, in the switch namespace.
    pub(crate) fn sockets(
        hosts: &[Host],
        plan: &TestbedPlan,
        link: usize,
    ) -> Result<Ports, TestbedError> {
        let switch = Host::create(&HostPlan::new("switch"), SWITCH_NUMBER)?;
        run_in_host(&switch, "IPv6", || {
            let folder = "/proc/sys/net/ipv6/conf/default";
            if fs::metadata(folder).is_err() {
                // The kernel has no IPv6.
                return Ok(());
            }
            fs::write(format!("{folder}/disable_ipv6"), "1")
        })?;
        let mut ports = Vec::new();
        for (number, host) in hosts.iter().enumerate() {
            let interface = LinkInterface { host, plan, link };
            ports.push(socket_port(interface, number, &switch)?);
        }
        let switch = Some(switch);
        Ok(Ports { ports, switch })
    }
}

fn socket_port(
    interface: LinkInterface<'_>,
    number: usize,
    switch: &Host,
) -> Result<Port, TestbedError> {
    let LinkInterface { host, plan, link } = interface;
    let name = format!("port{number}");
    let other = switch.namespace().try_clone_to_owned();
    let other = other.map_err(TestbedError::kernel("a second descriptor of a namespace"))?;
    let (own, peer) = (interface_name(link), name.clone());
    run_in_host(host, "the interface", move || {
        netlink::add_veth(&mut Netlink::open()?, &own, &peer, other.as_fd())?;
        sys::disable_offloads(&own)
    })?;
    let settings = InterfaceConfig {
        mtu: Some(plan.mtu),
        ..InterfaceConfig::default()
    };
    let device = run_in_host(switch, "the port", move || {
        netlink::configure_interface(&mut Netlink::open()?, &name, settings)?;
        open_packet(&name)
    })?;
    interface.configure(None)?;
    run_in_host(host, "the interface", move || {
        await_running(&mut Netlink::open()?, link)
    })?;
    Ok(Port::new(device))
}

/// Receive buffer of a packet socket, octets: as many full frames as a device queue holds.
const BACKLOG: usize = 32 << 20;

/// Opens a non-blocking packet socket for whole frames on the interface called `name` of the
/// calling thread's namespace.
fn open_packet(name: &str) -> io::Result<OwnedFd> {
    let opening = PacketSocketOptions {
        ethertype: packet::ALL_TYPES,
        port: None,
        source: None,
        outgoing: OutgoingFrames::Ignored,
        timestamped: false,
        receive_buffer: Some(BACKLOG),
        nonblocking: true,
    };
    let (socket, _) = packet::open(&Interface::find(name)?, &opening)?;
    Ok(socket)
}
