//! Raw sockets that a process with the right to them opens for one without: those of an agent's workers.
//!
//! Each is for one transport, one interface and one peer. What it receives is settled when it is opened, by its
//! interface and by a filter that cannot be changed (SO_LOCK_FILTER). What it sends is not: the kernel filters nothing
//! that a packet socket sends, and a raw IP socket may write its own header. `SECURITY.md` says what follows.

use crate::medium::random_port;
use crate::options::Options;
use crate::transport::{sctp, vmtp, xtp_raw};
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use wire_ether::packet::{self, OutgoingFrames, PacketSocketOptions};
use wire_ether::{EtherAddress, Interface};
use wire_udp::raw;

/// The interface of a host's own addresses.
const LOOPBACK: &str = "lo";

/// EtherTypes for experiments (IEEE 802), which `raw-ether` may use here: with another a peer could have this host
/// speak IP or ARP in its place.
const EXPERIMENTAL: [u16; 2] = [0x88b5, 0x88b6];

/// The socket that a transport needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RawSocketKind {
    /// Raw IP of a protocol number.
    Ip(u8),
    /// Ethernet frames of an EtherType.
    Frames(u16),
    /// Those to one port, which `raw-ether` has behind the Ethernet header.
    FramesToPort(u16, u16),
}

impl RawSocketKind {
    /// What `transport` needs for a circuit; None if it needs no raw socket.
    pub fn of(transport: &str, ethertype: u16) -> Option<RawSocketKind> {
        match transport {
            "xtp-rawip" => Some(RawSocketKind::Ip(xtp_raw::IP.protocol)),
            "sctp-rawip" => Some(RawSocketKind::Ip(sctp::IP.protocol)),
            "vmtp-rawip" => Some(RawSocketKind::Ip(vmtp::IP_MEDIUM.protocol)),
            "xtp-ether" => Some(RawSocketKind::Frames(xtp_raw::ETHERNET.ethertype)),
            "vmtp-ether" => Some(RawSocketKind::Frames(vmtp::ETHER_MEDIUM.ethertype)),
            "raw-ether" => Some(RawSocketKind::FramesToPort(ethertype, random_port())),
            _ => None,
        }
    }

    /// The port of its frames; 0 if they have none.
    pub fn port(self) -> u16 {
        match self {
            RawSocketKind::FramesToPort(_, port) => port,
            RawSocketKind::Ip(_) | RawSocketKind::Frames(_) => 0,
        }
    }

    fn check(self) -> Result<(), String> {
        let ip = [&xtp_raw::IP, &sctp::IP, &vmtp::IP_MEDIUM].map(|medium| medium.protocol);
        let ether = [&xtp_raw::ETHERNET, &vmtp::ETHER_MEDIUM].map(|medium| medium.ethertype);
        match self {
            RawSocketKind::Ip(protocol) if ip.contains(&protocol) => Ok(()),
            RawSocketKind::Frames(ethertype) if ether.contains(&ethertype) => Ok(()),
            RawSocketKind::FramesToPort(ethertype, _) if EXPERIMENTAL.contains(&ethertype) => {
                Ok(())
            }
            RawSocketKind::FramesToPort(ethertype, _) => Err(format!(
                "EtherType {ethertype:#06x} is not for experiments; give 0x88b5 or 0x88b6"
            )),
            RawSocketKind::Ip(_) | RawSocketKind::Frames(_) => {
                Err("no transport here uses such a socket".into())
            }
        }
    }
}

/// A raw socket for one peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawSocketRequest {
    /// Which.
    pub kind: RawSocketKind,
    /// This host's address towards the peer.
    pub local: IpAddr,
    /// The only host that it receives from.
    pub peer: IpAddr,
}

impl RawSocketRequest {
    /// Opens it on the interface that leads to the peer, which has to be one of `interfaces`.
    ///
    /// # Errors
    ///
    /// A sentence with the remedy.
    pub fn open(&self, interfaces: &[String]) -> Result<OwnedFd, String> {
        self.kind.check()?;
        let name = interface_towards(self.local, self.peer)
            .ok_or_else(|| format!("no interface has the address {}", self.local))?;
        if !interfaces.contains(&name) {
            return Err(format!(
                "{} is reached by the interface {name}, and raw sockets are given on {} alone",
                self.peer,
                interfaces.join(", ")
            ));
        }
        let opened = match self.kind {
            RawSocketKind::Ip(_) if name == LOOPBACK => {
                return Err(
                    "raw IP has no ports that tell two ends on one host apart; race it without --to"
                        .into(),
                );
            }
            RawSocketKind::Ip(protocol) => self.open_ip(&name, protocol),
            RawSocketKind::Frames(ethertype) => {
                let source = hardware_of(self.local, self.peer)?;
                open_frames(&name, ethertype, None, source)
            }
            RawSocketKind::FramesToPort(ethertype, port) => {
                let source = hardware_of(self.local, self.peer)?;
                open_frames(&name, ethertype, Some(port), source)
            }
        };
        opened.map_err(|error| format!("no raw socket on {name}: {error}"))
    }

    fn open_ip(&self, interface: &str, protocol: u8) -> io::Result<OwnedFd> {
        let socket = wire_ip::open_unbound(self.local, protocol)?;
        SockRef::from(&socket).bind_device(Some(interface.as_bytes()))?;
        raw::bind_to_pair(socket.as_fd(), self.local, self.peer)?;
        Ok(socket)
    }
}

fn open_frames(
    interface: &str,
    ethertype: u16,
    port: Option<u16>,
    source: [u8; 6],
) -> io::Result<OwnedFd> {
    let opening = PacketSocketOptions {
        ethertype,
        port,
        source: Some(source),
        outgoing: OutgoingFrames::Ignored,
        timestamped: false,
        receive_buffer: None,
        nonblocking: false,
    };
    let (socket, _) = packet::open(&Interface::find(interface)?, &opening)?;
    Ok(socket)
}

/// The interface by which `peer` is reached from this host's address `local`.
pub fn interface_towards(local: IpAddr, peer: IpAddr) -> Option<String> {
    match local == peer || peer.is_loopback() {
        true => Some(LOOPBACK.into()),
        false => Interface::name_with_address(local),
    }
}

/// Whether there is an interface of this name.
///
/// # Errors
///
/// `NotFound` when there is none.
pub fn check_interface(name: &str) -> io::Result<()> {
    Interface::find(name).map(drop)
}

/// The interface that has this address.
pub fn interface_with_address(address: IpAddr) -> Option<String> {
    Interface::name_with_address(address)
}

/// The interface for the circuits of `options`: the one that is named, or the one that leads to the only peer.
pub(crate) fn interface_of(options: &Options) -> Option<String> {
    let towards = || {
        let local = *options.local_addresses.first()?;
        interface_towards(local, options.only_from?)
    };
    options.interface.clone().or_else(towards)
}

/// The hardware address of `peer`, which is on the link of this host's address `local`.
///
/// # Errors
///
/// A sentence, where the peer is behind a router, or the kernel does not say.
pub fn hardware_of(local: IpAddr, peer: IpAddr) -> Result<[u8; 6], String> {
    let interface = interface_towards(local, peer)
        .ok_or_else(|| format!("no interface has the address {local}"))?;
    if interface == LOOPBACK {
        return Ok([0; 6]);
    }
    let hardware = match peer {
        IpAddr::V6(peer) => Interface::find(&interface)
            .and_then(|found| netlink::hardware_of(peer, found.index))
            .map_err(|error| format!("the neighbours on {interface} are not known: {error}"))?,
        IpAddr::V4(_) => {
            // Of this thread's network namespace; /proc/net is that of the process.
            let table = std::fs::read_to_string("/proc/thread-self/net/arp").unwrap_or_default();
            neighbour(&table, peer, &interface)
        }
    };
    hardware.ok_or_else(|| {
        format!(
            "{peer} is no neighbour on {interface}; frames reach hosts of the same link alone, not those behind a router"
        )
    })
}

/// The hardware address in a line of the kernel's table: address, type, flags, hardware address, mask, device.
fn neighbour(table: &str, peer: IpAddr, interface: &str) -> Option<[u8; 6]> {
    /// The entry is complete (ATF_COM).
    const COMPLETE: u32 = 2;
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, _, flags, hardware, _, device] = words[..] else {
            return None;
        };
        let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
        let is_it = address.parse() == Ok(peer) && device == interface && flags & COMPLETE != 0;
        let address: EtherAddress = format!("{hardware}/0").parse().ok()?;
        is_it.then_some(address.hardware)
    };
    table.lines().find_map(line)
}

/// A line of a rendezvous with `hardware` as its hardware address, whatever it says; None if it is no such line.
pub fn with_hardware(line: &[u8], hardware: [u8; 6]) -> Option<Vec<u8>> {
    let address: EtherAddress = std::str::from_utf8(line).ok()?.parse().ok()?;
    let address = EtherAddress {
        hardware,
        ..address
    };
    Some(address.to_string().into_bytes())
}

/// A raw socket from another process.
#[derive(Debug)]
pub struct GrantedSocket {
    /// The socket, bound and filtered.
    pub socket: OwnedFd,
    /// The port of its frames; 0 if they have none.
    pub port: u16,
}

/// The raw sockets that a listener or a connector takes instead of opening some.
#[derive(Clone, Debug)]
pub struct GrantedSockets(Arc<Mutex<VecDeque<GrantedSocket>>>);

impl GrantedSockets {
    /// These, to be used one after the other.
    pub fn new(sockets: Vec<GrantedSocket>) -> GrantedSockets {
        GrantedSockets(Arc::new(Mutex::new(sockets.into())))
    }

    pub(crate) fn take(&self) -> io::Result<GrantedSocket> {
        let mut sockets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = "all raw sockets that this process was given are used; ask for fewer circuits";
        sockets.pop_front().ok_or_else(|| io::Error::other(text))
    }
}

impl PartialEq for GrantedSockets {
    fn eq(&self, other: &GrantedSockets) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for GrantedSockets {}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "IP address       HW type     Flags       HW address            Mask     Device
10.0.0.2         0x1         0x2         02:00:00:00:00:02     *        eth0
10.0.0.3         0x1         0x0         00:00:00:00:00:00     *        eth0
10.0.0.4         0x1         0x2         02:00:00:00:00:04     *        eth1
";

    #[test]
    fn hardware_address_is_that_of_a_complete_entry_of_the_interface() {
        let of = |peer: &str| neighbour(TABLE, peer.parse().expect("an address"), "eth0");
        assert_eq!(of("10.0.0.2"), Some([2, 0, 0, 0, 0, 2]));
        for other in ["10.0.0.3", "10.0.0.4", "10.0.0.5"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn only_what_transports_use_is_opened() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let open = |kind, interfaces: &[String]| {
            let request = RawSocketRequest {
                kind,
                local: here,
                peer: here,
            };
            request.open(interfaces).expect_err("it is refused")
        };
        let lo = ["lo".to_owned()];
        for kind in [
            RawSocketKind::Ip(1),
            RawSocketKind::Frames(0x0800),
            RawSocketKind::FramesToPort(0x0806, 1),
        ] {
            let why = open(kind, &lo);
            assert!(why.contains("EtherType 0x0806") || why.contains("no transport"));
        }
        let kind = RawSocketKind::of("xtp-rawip", 0).expect("it needs one");
        assert!(open(kind, &lo).contains("without --to"));
        let kind = RawSocketKind::of("xtp-ether", 0).expect("it needs one");
        assert!(open(kind, &["eth7".into()]).contains("on eth7 alone"));
        assert_eq!(RawSocketKind::of("xtp", 0), None);
    }

    #[test]
    fn filter_of_a_socket_cannot_be_taken_off() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let request = RawSocketRequest {
            kind: RawSocketKind::FramesToPort(0x88b5, 7),
            local: here,
            peer: here,
        };
        let socket = match request.open(&["lo".to_owned()]) {
            Ok(socket) => socket,
            Err(why) if why.contains("os error 1)") => return eprintln!("SKIPPED: {why}"),
            Err(why) => panic!("{why}"),
        };
        let socket = SockRef::from(&socket);
        let pass = [socket2::SockFilter::new(0x06, 0, 0, u32::MAX)];
        for changed in [socket.detach_filter(), socket.attach_filter(&pass)] {
            let error = changed.expect_err("it is locked");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn hardware_address_of_a_rendezvous_is_replaced() {
        let line = with_hardware(b"02:00:00:00:00:01/7", [2, 0, 0, 0, 0, 9]);
        assert_eq!(line.as_deref(), Some(&b"02:00:00:00:00:09/7"[..]));
        assert_eq!(with_hardware(b"10.0.0.1:7", [0; 6]), None);
    }
}
