//! Hardware addresses of IPv6 neighbours, which the kernel shows by rtnetlink(7) alone.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::net::Ipv6Addr;
use std::time::Duration;

/// Types of messages (linux/netlink.h, linux/rtnetlink.h).
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;

/// NLM_F_REQUEST and NLM_F_DUMP: all entries of the family.
const DUMP_REQUEST: u16 = 0x001 | 0x300;

/// Octets of the head of a message (struct nlmsghdr), of a neighbour's (struct ndmsg), and of an attribute's (struct rtattr).
const HEAD_LEN: usize = 16;
const NEIGHBOUR_LEN: usize = 12;
const ATTRIBUTE_LEN: usize = 4;

/// Attributes of a neighbour (linux/neighbour.h).
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

/// States in which a hardware address is known: reachable, stale, delay, probe, permanent (linux/neighbour.h).
const KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;

const AF_INET6: u8 = 10;

/// The kernel answers at once.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Octets of an answer; the kernel sends at most 32 KiB at once.
const ANSWER_MAX: usize = 32 << 10;

/// The hardware address of `peer` on interface number `index`, in this thread's network namespace; None if it is no known
/// neighbour there.
///
/// # Errors
///
/// Those of the socket.
pub(crate) fn hardware_of(peer: Ipv6Addr, index: u32) -> io::Result<Option<[u8; 6]>> {
    let (raw, close) = (SocketType::RAW, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, raw, close, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(REPLY_TIMEOUT))?;
    rustix::net::send(&socket, &request(), SendFlags::empty())?;
    let mut answer = vec![0; ANSWER_MAX];
    let mut found = None;
    loop {
        let (len, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
        for (kind, body) in messages(&answer[..len]) {
            match kind {
                RTM_NEWNEIGH => found = found.or_else(|| neighbour(body, peer, index)),
                NLMSG_DONE => return Ok(found),
                NLMSG_ERROR => return Err(io::Error::other("the kernel shows no neighbours")),
                _ => {}
            }
        }
    }
}

/// The request for all IPv6 neighbours.
fn request() -> [u8; HEAD_LEN + NEIGHBOUR_LEN] {
    let mut octets = [0; HEAD_LEN + NEIGHBOUR_LEN];
    let len = octets.len() as u32;
    octets[..4].copy_from_slice(&len.to_ne_bytes());
    octets[4..6].copy_from_slice(&RTM_GETNEIGH.to_ne_bytes());
    octets[6..8].copy_from_slice(&DUMP_REQUEST.to_ne_bytes());
    octets[HEAD_LEN] = AF_INET6;
    octets
}

/// Type and body of each message.
fn messages(answer: &[u8]) -> Vec<(u16, &[u8])> {
    let head = |octets: &[u8]| {
        let len = u32::from_ne_bytes(octets.get(..4)?.try_into().ok()?) as usize;
        Some((len, short(octets, 4)?))
    };
    parts(answer, HEAD_LEN, head)
}

/// The parts of `octets`, each with a head of `head_len` octets that says its length, the head included, and its type, and
/// aligned to 4 octets; what is cut off ends them.
fn parts(
    mut octets: &[u8],
    head_len: usize,
    head: impl Fn(&[u8]) -> Option<(usize, u16)>,
) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    while let Some((len, kind)) = head(octets) {
        let Some(body) = octets.get(head_len..len) else {
            break;
        };
        all.push((kind, body));
        octets = octets.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

fn short(octets: &[u8], at: usize) -> Option<u16> {
    let two = octets.get(at..at + 2)?;
    Some(u16::from_ne_bytes(two.try_into().ok()?))
}

/// The hardware address in a neighbour's entry, if it is that of `peer` on interface `index`.
fn neighbour(entry: &[u8], peer: Ipv6Addr, index: u32) -> Option<[u8; 6]> {
    // struct ndmsg: family, three octets of padding, index, state, flags, type.
    let of_interface = entry.get(4..8)? == index.to_ne_bytes();
    if !of_interface || short(entry, 8)? & KNOWN == 0 {
        return None;
    }
    let head = |octets: &[u8]| Some((usize::from(short(octets, 0)?), short(octets, 2)?));
    let attributes = parts(entry.get(NEIGHBOUR_LEN..)?, ATTRIBUTE_LEN, head);
    let of = |wanted: u16| {
        let mut all = attributes.iter();
        all.find_map(|(kind, value)| (*kind == wanted).then_some(*value))
    };
    (of(NDA_DST)? == peer.octets()).then_some(())?;
    of(NDA_LLADDR)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
    const HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn part(head: &[u8], body: &[u8]) -> Vec<u8> {
        let mut octets = [head, body].concat();
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = (ATTRIBUTE_LEN + value.len()) as u16;
        part(&[len.to_ne_bytes(), kind.to_ne_bytes()].concat(), value)
    }

    fn entry(index: u32, state: u16) -> Vec<u8> {
        let mut octets = vec![AF_INET6, 0, 0, 0];
        octets.extend(index.to_ne_bytes());
        octets.extend(state.to_ne_bytes());
        octets.extend([0, 1]);
        octets.extend(attribute(NDA_LLADDR, &HARDWARE));
        octets.extend(attribute(NDA_DST, &PEER.octets()));
        octets
    }

    #[test]
    fn hardware_address_is_that_of_a_known_entry_of_the_interface() {
        const STALE: u16 = 0x04;
        const FAILED: u16 = 0x20;
        assert_eq!(neighbour(&entry(7, STALE), PEER, 7), Some(HARDWARE));
        assert_eq!(neighbour(&entry(7, FAILED), PEER, 7), None);
        assert_eq!(neighbour(&entry(8, STALE), PEER, 7), None);
        assert_eq!(
            neighbour(&entry(7, STALE), Ipv6Addr::LOCALHOST, 7),
            None,
            "of another host"
        );
        for cut in 0..entry(7, STALE).len() {
            assert_eq!(neighbour(&entry(7, STALE)[..cut], PEER, 7), None, "{cut}");
        }
    }

    #[test]
    fn messages_follow_each_other_until_one_is_cut_off() {
        let message = |kind: u16, body: &[u8]| {
            let mut head = ((HEAD_LEN + body.len()) as u32).to_ne_bytes().to_vec();
            head.extend(kind.to_ne_bytes());
            head.resize(HEAD_LEN, 0);
            part(&head, body)
        };
        let all = [message(28, &[1, 2, 3]), message(3, &[4, 5, 6, 7])].concat();
        let two: Vec<(u16, &[u8])> = vec![(28, &[1, 2, 3]), (3, &[4, 5, 6, 7])];
        assert_eq!(messages(&all), two);
        assert_eq!(messages(&all[..all.len() - 1]), two[..1]);
    }

    #[test]
    fn kernel_answers_for_an_address_without_a_neighbour() {
        let none = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        assert_eq!(hardware_of(none, 1).expect("an answer"), None);
    }
}
