//! A host between a group and members that multicast does not reach.

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

/// Members a relay serves at most: one socket each, of the 1024 that a process usually has.
pub const MEMBERS_MAX: usize = 500;

/// How often the loop looks whether to stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Packets taken from one socket before the others have their turn.
const PACKETS_PER_SOCKET: usize = 64;

/// What a relay has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayCounters {
    /// Packets sent to members.
    pub repeated: u64,
    /// Answers returned to senders.
    pub returned: u64,
    /// Packets that belong to no stream, or are damaged.
    pub rejected: u64,
    /// Packets that the system took no more of, or refused.
    pub unsent: u64,
}

/// Hears a group and repeats its packets to each member; returns what they answer. Members listen with
/// [`Receiver::listen`](super::Receiver::listen). To the sender each is a member of the group, at an
/// address of the relay.
pub struct Relay {
    core: Core,
    group: UdpSocket,
    /// One for each member.
    proxy_sockets: Vec<UdpSocket>,
    epoll: OwnedFd,
    started_at: std::time::Instant,
    unsent: u64,
}

impl Relay {
    /// Joins `group` on the interface that has the address `local` (unspecified: any; IPv6: the group's
    /// scope), for `members`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when `group` is none or there are no members or too many, or the kernel's.
    pub fn join(group: SocketAddr, local: IpAddr, members: &[SocketAddr]) -> io::Result<Relay> {
        check_multicast(group)?;
        if !(1..=MEMBERS_MAX).contains(&members.len()) {
            let text = format!(
                "a relay has 1 to {MEMBERS_MAX} members, not {}",
                members.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let heard = wire_udp::multicast::open_member_socket(SocketType::DGRAM, None, group, local)?;
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

    /// What it has done.
    pub fn counters(&self) -> RelayCounters {
        let (repeated, returned) = self.core.forwarded_counts();
        RelayCounters {
            repeated,
            returned,
            rejected: self.core.rejects().total(),
            unsent: self.unsent,
        }
    }

    /// Where the members' stand-ins are, in the order of the members.
    ///
    /// # Errors
    ///
    /// None are known for bound sockets.
    pub fn proxy_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.proxy_sockets
            .iter()
            .map(UdpSocket::local_addr)
            .collect()
    }

    /// Passes packets on until `stop` is set, seen within a tenth of a second.
    ///
    /// # Errors
    ///
    /// The kernel's, about its own sockets; what cannot be sent is counted.
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

    /// Passes on what came to the group's socket, which is the first, or to a stand-in's.
    fn relay_packets(&mut self, name: usize, buffer: &mut [u8]) {
        let (heard, socket) = match name.checked_sub(1) {
            None => (ArrivalAddress::Group, &self.group),
            Some(place) => (ArrivalAddress::StandIn(place), &self.proxy_sockets[place]),
        };
        for _ in 0..PACKETS_PER_SOCKET {
            // An error is that of a packet sent before, which its sender will miss.
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

/// The address a stand-in has: that of the interface, if it is one by which members can be reached.
fn proxy_host(local: IpAddr, member: SocketAddr) -> IpAddr {
    let alike = local.is_ipv4() == member.is_ipv4();
    if alike && local.is_loopback() && member.ip().is_loopback() {
        return local;
    }
    crate::socket::wildcard_address(&member).ip()
}
