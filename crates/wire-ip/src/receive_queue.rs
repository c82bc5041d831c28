//! Packets of one recvmmsg that the engine has not taken yet.

use crate::sys;
use engine::{Address, Ecn, Path};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;
use wire::Arrival;

/// Octets of an IPv4 header without options (RFC 791).
const V4_LEN: usize = 20;

/// The packets of the last call, oldest first.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    local: IpAddr,
    buffers: Option<sys::ReceiveBuffers>,
    next: usize,
    count: usize,
}

impl ReceiveQueue {
    /// An empty queue of a socket bound to `local`.
    pub(crate) fn new(local: IpAddr) -> ReceiveQueue {
        ReceiveQueue {
            local,
            buffers: None,
            next: 0,
            count: 0,
        }
    }

    /// Whether all packets were taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.count
    }

    /// Receives the next packets; `flags` decide whether it waits. Call it when the queue is empty.
    pub(crate) fn fill(&mut self, socket: BorrowedFd<'_>, flags: i32) -> io::Result<()> {
        let buffers = self.buffers.get_or_insert_with(sys::ReceiveBuffers::new);
        (self.next, self.count) = (0, 0);
        self.count = buffers.receive(socket, flags)?;
        Ok(())
    }

    /// Moves the next packet into `buffer`, and the packets behind it of the same sender and
    /// length. A shorter packet is the last of an arrival. Fails with `WouldBlock` when the queue is empty.
    pub(crate) fn pop_arrival(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let mut arrival: Option<Arrival> = None;
        while let Some((from, packet)) = self.front() {
            let packet = &packet[..packet.len().min(buffer.len())];
            let at = match &mut arrival {
                None => 0,
                Some(first) => {
                    let same_batch = first.path.remote == from
                        && packet.len() <= first.segment_size
                        && first.len % first.segment_size == 0
                        && first.len + packet.len() <= buffer.len();
                    if !same_batch {
                        break;
                    }
                    first.len
                }
            };
            buffer[at..at + packet.len()].copy_from_slice(packet);
            let more = packet.len();
            self.next += 1;
            if more > 0 {
                arrival
                    .get_or_insert(Arrival {
                        path: Path::to(from),
                        ecn: Ecn::NotEct,
                        len: 0,
                        segment_size: more,
                    })
                    .len += more;
            }
        }
        arrival.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// The next packet without its IP header, and its sender.
    fn front(&mut self) -> Option<(Address, &[u8])> {
        let buffers = self.buffers.as_ref()?;
        while self.next < self.count {
            if let Some((from, octets)) = buffers.packet(self.next)
                && let Some(payload) = strip_ip_header(self.local, octets)
            {
                return Some((Address::Socket(from), payload));
            }
            self.next += 1;
        }
        None
    }
}

/// The payload of an IP packet to `local`, or to a group; None for another destination and for a
/// malformed header. A raw socket returns the header with IPv4 only.
///
/// The kernel may queue a packet to another address after the socket is bound, when it looked the
/// socket up before; see [`wire_udp::raw::bind`].
fn strip_ip_header(local: IpAddr, octets: &[u8]) -> Option<&[u8]> {
    let IpAddr::V4(local) = local else {
        return Some(octets);
    };
    let header = octets.first_chunk::<V4_LEN>()?;
    let len = usize::from(header[0] & 0x0f) * 4;
    let to = Ipv4Addr::from_octets([header[16], header[17], header[18], header[19]]);
    let is_meant = to == local || to.is_multicast() || local.is_unspecified();
    (header[0] >> 4 == 4 && len >= V4_LEN && is_meant).then(|| octets.get(len..))?
}

#[cfg(test)]
mod tests {
    use super::strip_ip_header;

    #[test]
    fn ip_header_is_stripped_and_bad_lengths_rejected() {
        let v4 = "10.0.0.2".parse().expect("an address");
        let v6 = "::1".parse().expect("an address");
        let mut packet = vec![0x45];
        packet.resize(16, 0);
        packet.extend([10, 0, 0, 2, 7, 8]);
        assert_eq!(strip_ip_header(v4, &packet), Some(&[7, 8][..]));
        packet[0] = 0x46;
        assert_eq!(strip_ip_header(v4, &packet), None, "longer than the packet");
        packet[0] = 0x44;
        assert_eq!(
            strip_ip_header(v4, &packet),
            None,
            "shorter than any header"
        );
        packet[0] = 0x65;
        assert_eq!(strip_ip_header(v4, &packet), None, "another version");
        assert_eq!(strip_ip_header(v4, &[]), None);
        assert_eq!(strip_ip_header(v6, &[1, 2]), Some(&[1, 2][..]));
    }
    #[test]
    fn packets_to_another_host_are_left_out_and_those_to_groups_are_not() {
        let meant = |local: &str, to: [u8; 4]| {
            let mut packet = vec![0x45];
            packet.resize(16, 0);
            packet.extend(to);
            packet.push(7);
            strip_ip_header(local.parse().expect("an address"), &packet).is_some()
        };
        assert!(meant("10.0.0.2", [10, 0, 0, 2]));
        assert!(!meant("10.0.0.2", [10, 0, 0, 3]));
        assert!(meant("10.0.0.2", [239, 8, 5, 1]));
        assert!(meant("0.0.0.0", [10, 0, 0, 3]));
    }
}
