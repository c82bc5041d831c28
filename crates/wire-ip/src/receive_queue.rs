//! Packets of one recvmmsg that the engine has not taken yet.

use crate::sys;
use engine::{Address, Ecn, Path};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use wire::Arrival;

/// Octets of an IPv4 header without options (RFC 791).
const V4_LEN: usize = 20;

/// The packets of the last call, oldest first.
#[derive(Debug, Default)]
pub(crate) struct ReceiveQueue {
    buffers: Option<sys::ReceiveBuffers>,
    next: usize,
    count: usize,
}

impl ReceiveQueue {
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
    /// length. A shorter packet is the last of an arrival.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when the queue is empty.
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
                && let Some(payload) = strip_ip_header(from, octets)
            {
                return Some((Address::Socket(from), payload));
            }
            self.next += 1;
        }
        None
    }
}

/// The payload of an IP packet; None when the header is malformed. A raw socket returns the header
/// with IPv4 only.
fn strip_ip_header(from: SocketAddr, octets: &[u8]) -> Option<&[u8]> {
    if from.is_ipv6() {
        return Some(octets);
    }
    let first = *octets.first()?;
    let len = usize::from(first & 0x0f) * 4;
    (first >> 4 == 4 && len >= V4_LEN).then(|| octets.get(len..))?
}

#[cfg(test)]
mod tests {
    use super::strip_ip_header;

    #[test]
    fn ip_header_is_stripped_and_bad_lengths_rejected() {
        let v4 = "10.0.0.1:0".parse().expect("an address");
        let v6 = "[::1]:0".parse().expect("an address");
        let mut packet = vec![0x45];
        packet.resize(20, 0);
        packet.extend([7, 8]);
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
}
