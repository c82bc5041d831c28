//! A relay (multicast repeater) between a group and members that multicast does not reach.

use super::config::check_multicast;
use engine::{Address, Instant};
use engine_xtp::group::relay::{ArrivalAddress, Relay as Core, RelayConfig};
use rustix::event::{Timespec, epoll};
use rustix::net::SocketType;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most members of a relay: one socket each, of the usual limit of 1024 descriptors.
pub const MEMBERS_MAX: usize = 500;

/// How often the loop checks whether to stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Packets received from one socket before the others are served.
const PACKETS_PER_SOCKET: usize = 64;

/// Counters of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayCounters {
    /// Packets repeated to members.
    pub repeated: u64,
    /// Control packets returned to senders.
    pub returned: u64,
    /// Packets that belong to no stream, or are damaged.
    pub rejected: u64,
    /// Packets whose send failed.
    pub unsent: u64,
}

/// Receives a group's packets, repeats them to each member, and returns the members' control
/// packets to the sender. Members use [`Receiver::listen`](super::Receiver::listen). The sender
/// sees each as a member of the group, at an address of the relay.
pub struct Relay {
    core: Core,
    group: UdpSocket,
    /// One per member, whose control packets arrive there.
    proxy_sockets: Vec<UdpSocket>,
    epoll: OwnedFd,
    started_at: std::time::Instant,
    unsent: u64,
}

impl Relay {
    /// Joins `group` on the interface that has the address `local` (unspecified: any; IPv6: the
    /// group's scope), for `members`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when `group` is no multicast address, or there are no or too many members.
    pub fn join(group: SocketAddr, local: IpAddr, members: &[SocketAddr]) -> io::Result<Relay> {
        check_multicast(group)?;
        if !(1..=MEMBERS_MAX).contains(&members.len()) {
            let text = format!(
                "a relay has 1 to {MEMBERS_MAX} members, not {}",
                members.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let heard =
            wire_udp::multicast::open_member_socket(SocketType::DGRAM, None, group, local, None)?;
        let group = UdpSocket::from(heard);
        let bind = |member: &SocketAddr| {
            let own = SocketAddr::from((proxy_host(local, *member), 0));
            UdpSocket::bind(own)
        };
        let proxy_sockets = members.iter().map(bind).collect::<io::Result<Vec<_>>>()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (name, socket) in [&group].into_iter().chain(&proxy_sockets).enumerate() {
            socket.set_nonblocking(true)?;
            wire_udp::sys::set_buffers(socket.as_fd(), wire_udp::BUFFER_LEN);
            let name = epoll::EventData::new_u64(name as u64);
            epoll::add(&epoll, socket, name, epoll::EventFlags::IN)?;
        }
        let core = Core::new(RelayConfig {
            members: members.iter().copied().map(Address::Socket).collect(),
            ..RelayConfig::default()
        });
        Ok(Relay {
            core,
            group,
            proxy_sockets,
            epoll,
            started_at: std::time::Instant::now(),
            unsent: 0,
        })
    }

    /// Repeats answers to status requests to the members as well, those given in the group and those of other members:
    /// for groups with buckets whose receivers suppress an answer that another gave (`damping=on`).
    pub fn enable_damping(&mut self) {
        self.core.enable_damping();
    }

    /// Its counters.
    pub fn counters(&self) -> RelayCounters {
        let (repeated, returned) = self.core.forwarded_counts();
        RelayCounters {
            repeated,
            returned,
            rejected: self.core.rejects().total(),
            unsent: self.unsent,
        }
    }

    /// The relay's addresses that stand for the members, in the order of the members.
    pub fn proxy_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.proxy_sockets
            .iter()
            .map(UdpSocket::local_addr)
            .collect()
    }

    /// Relays packets until `stop` is set, checked every 100 ms.
    ///
    /// # Errors
    ///
    /// Errors of epoll; sends that fail are counted.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        while !stop.load(Ordering::Relaxed) {
            let mut events = [epoll::Event {
                flags: epoll::EventFlags::empty(),
                data: epoll::EventData::new_u64(0),
            }; 64];
            let limit = Timespec {
                tv_sec: 0,
                tv_nsec: STOP_POLL_INTERVAL.as_nanos() as i64,
            };
            let count = match epoll::wait(&self.epoll, &mut events, Some(&limit)) {
                Err(rustix::io::Errno::INTR) => 0,
                other => other?,
            };
            for event in &events[..count] {
                self.relay_packets(event.data.u64() as usize, &mut buffer);
            }
        }
        Ok(())
    }

    /// Relays packets from the group's socket (token 0) or a proxy socket.
    fn relay_packets(&mut self, name: usize, buffer: &mut [u8]) {
        let (heard, socket) = match name.checked_sub(1) {
            None => (ArrivalAddress::Group, &self.group),
            Some(place) => (ArrivalAddress::StandIn(place), &self.proxy_sockets[place]),
        };
        for _ in 0..PACKETS_PER_SOCKET {
            // An error may be that of an earlier send; the protocol retransmits.
            let Ok((len, from)) = socket.recv_from(buffer) else {
                return;
            };
            let now = Instant::from_nanos(self.started_at.elapsed().as_nanos() as u64);
            let (packet, proxy_sockets) = (&buffer[..len], &self.proxy_sockets);
            let mut unsent = 0;
            let send = |place: usize, to: Address| {
                let done = match to {
                    Address::Socket(to) => proxy_sockets[place].send_to(packet, to).is_ok(),
                    _ => false,
                };
                unsent += u64::from(!done);
            };
            self.core
                .handle_packet(now, heard, Address::Socket(from), packet, send);
            self.unsent += unsent;
        }
    }
}

/// The address of a proxy socket: `local` if both it and the member are on the loopback, else the
/// wildcard address.
fn proxy_host(local: IpAddr, member: SocketAddr) -> IpAddr {
    let alike = local.is_ipv4() == member.is_ipv4();
    if alike && local.is_loopback() && member.ip().is_loopback() {
        return local;
    }
    crate::socket::wildcard_address(&member).ip()
}
