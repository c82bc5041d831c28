//! Neighbours: an address of a link and its hardware address (`struct ndmsg` in linux/neighbour.h).

use crate::message::{self, Request, attribute};
use crate::{Netlink, address_octets};
use std::io;
use std::net::{IpAddr, Ipv6Addr};

const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

/// A permanent entry (NUD_PERMANENT).
const PERMANENT: u16 = 0x80;

/// States in which a hardware address is known: reachable, stale, delay, probe, permanent.
const KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | PERMANENT;

/// Octets of a neighbour before its attributes.
const FIXED_LEN: usize = 12;

/// `struct ndmsg`: family, three octets of padding, index, state, flags, type.
fn fixed(family: u8, index: u32, state: u16) -> [u8; FIXED_LEN] {
    let mut octets = [0; FIXED_LEN];
    octets[0] = family;
    octets[4..8].copy_from_slice(&index.to_ne_bytes());
    octets[8..10].copy_from_slice(&state.to_ne_bytes());
    octets
}

fn entry(address: IpAddr, index: u32, state: u16, hardware: [u8; 6]) -> Request {
    let (family, octets) = address_octets(address);
    let mut request = Request::replace(RTM_NEWNEIGH, &fixed(family, index, state));
    request.attribute(NDA_LLADDR, &hardware);
    request.attribute(NDA_DST, &octets);
    request
}

/// Adds a permanent entry to interface `index`, so that no packet waits for ARP or NDP.
/// Errors are those of [`Netlink::request`].
pub fn add_neighbour(
    netlink: &mut Netlink,
    index: u32,
    address: IpAddr,
    hardware: [u8; 6],
) -> io::Result<()> {
    netlink.request(entry(address, index, PERMANENT, hardware))
}

/// The hardware address of `peer` on interface `index`, in this thread's network namespace; None if it is no known
/// neighbour there. The kernel shows IPv6 neighbours by rtnetlink(7) alone. Errors are those of [`Netlink::request`].
pub fn hardware_of(peer: Ipv6Addr, index: u32) -> io::Result<Option<[u8; 6]>> {
    let (family, _) = address_octets(peer.into());
    let request = Request::dump(RTM_GETNEIGH, &fixed(family, 0, 0));
    let mut found = None;
    Netlink::open()?.exchange(request, |kind, body| {
        if kind == RTM_NEWNEIGH {
            found = found.or_else(|| hardware_in(body, peer, index));
        }
    })?;
    Ok(found)
}

/// The hardware address in a neighbour's entry, if it is that of `peer` on interface `index`.
fn hardware_in(entry: &[u8], peer: Ipv6Addr, index: u32) -> Option<[u8; 6]> {
    let of_interface = entry.get(4..8)? == index.to_ne_bytes();
    if !of_interface || message::short(entry, 8)? & KNOWN == 0 {
        return None;
    }
    let attributes = entry.get(FIXED_LEN..)?;
    (attribute(attributes, NDA_DST)? == peer.octets()).then_some(())?;
    attribute(attributes, NDA_LLADDR)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
    const HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 2];

    #[test]
    fn hardware_address_is_that_of_a_known_entry_of_the_interface() {
        const STALE: u16 = 0x04;
        const FAILED: u16 = 0x20;
        let body = |index: u32, state: u16| {
            let message = entry(PEER.into(), index, state, HARDWARE).finish(1);
            let (_, body) = message::messages(&message).next().expect("a message");
            body.to_vec()
        };
        assert_eq!(hardware_in(&body(7, STALE), PEER, 7), Some(HARDWARE));
        assert_eq!(hardware_in(&body(7, FAILED), PEER, 7), None);
        assert_eq!(hardware_in(&body(8, STALE), PEER, 7), None);
        assert_eq!(
            hardware_in(&body(7, STALE), Ipv6Addr::LOCALHOST, 7),
            None,
            "of another host"
        );
        for cut in 0..body(7, STALE).len() {
            assert_eq!(hardware_in(&body(7, STALE)[..cut], PEER, 7), None, "{cut}");
        }
    }

    #[test]
    fn kernel_answers_for_an_address_without_a_neighbour() {
        let none = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        assert_eq!(hardware_of(none, 1).expect("an answer"), None);
    }
}
