//! Filters of sockets (classic BPF) that pass the packets of one IP address, or of one port at it.

use socket2::SockFilter;
use std::net::{IpAddr, SocketAddr};

/// `ld [k]`: loads a word of the packet (BPF_LD | BPF_W | BPF_ABS).
const LOAD_WORD: u16 = 0x20;

/// `jeq k, jt, jf` (BPF_JMP | BPF_JEQ | BPF_K).
const JUMP_IF_EQUAL: u16 = 0x15;

/// `ldh [k]`: loads half a word of the packet (BPF_LD | BPF_H | BPF_ABS).
const LOAD_HALF: u16 = 0x28;

/// `ldh [x + k]` (BPF_LD | BPF_H | BPF_IND).
const LOAD_HALF_BEHIND: u16 = 0x48;

/// `ldxb 4*([k]&0xf)`: octets of the IPv4 header at k, into x (BPF_LDX | BPF_B | BPF_MSH).
const HEADER_LEN: u16 = 0xb1;

/// Where the destination port is, behind the IP header: of UDP, TCP and SCTP alike.
const DESTINATION_PORT: u32 = 2;

/// `ret k`: accepts the first k octets of the packet; 0 drops it (BPF_RET | BPF_K).
const RETURN: u16 = 0x06;

/// Added to an offset, counts it from the network header (SKF_NET_OFF, -0x100000).
const NETWORK_HEADER: u32 = 0xfff0_0000;

/// Offsets of an address in the IP header, octets.
struct Offsets {
    /// RFC 791.
    ipv4: u32,
    /// RFC 8200.
    ipv6: u32,
}

/// The program that passes packets from `address`.
pub fn source_filter(address: IpAddr) -> Vec<SockFilter> {
    accept(compare(address, &SOURCE, 0))
}

/// The program that passes packets from `peer` to `local`.
pub fn pair_filter(local: IpAddr, peer: IpAddr) -> Vec<SockFilter> {
    let behind = compare(local, &DESTINATION, 0);
    let mut program = compare(peer, &SOURCE, behind.len());
    program.extend(behind);
    accept(program)
}

const SOURCE: Offsets = Offsets { ipv4: 12, ipv6: 8 };

/// The program that passes packets to `address`.
pub fn destination_filter(address: IpAddr) -> Vec<SockFilter> {
    accept(compare(address, &DESTINATION, 0))
}

const DESTINATION: Offsets = Offsets { ipv4: 16, ipv6: 24 };

/// The program that passes packets to a port at an address, for a raw socket: what such a one gets begins with the
/// header of IPv4, and behind that of IPv6 (raw(7)).
pub fn port_filter(local: SocketAddr) -> Vec<SockFilter> {
    let load = match local.ip() {
        IpAddr::V4(_) => vec![
            SockFilter::new(HEADER_LEN, 0, 0, 0),
            SockFilter::new(LOAD_HALF_BEHIND, 0, 0, DESTINATION_PORT),
        ],
        IpAddr::V6(_) => vec![SockFilter::new(LOAD_HALF, 0, 0, DESTINATION_PORT)],
    };
    let mut program = compare(local.ip(), &DESTINATION, load.len() + 1);
    program.extend(load);
    // On a mismatch over the first return.
    let port = u32::from(local.port());
    program.push(SockFilter::new(JUMP_IF_EQUAL, 0, 1, port));
    accept(program)
}

/// Compares the address word by word; `behind` instructions follow before those of [`accept`].
fn compare(address: IpAddr, at: &Offsets, behind: usize) -> Vec<SockFilter> {
    let (start, octets) = match address {
        IpAddr::V4(address) => (at.ipv4, address.octets().to_vec()),
        IpAddr::V6(address) => (at.ipv6, address.octets().to_vec()),
    };
    let (words, _) = octets.as_chunks::<4>();
    let mut program = Vec::new();
    for (index, word) in words.iter().enumerate() {
        // On a mismatch, jump over what remains to the second return, which drops.
        let miss = 2 * (words.len() - index - 1) + behind + 1;
        let offset = NETWORK_HEADER + start + 4 * index as u32;
        program.push(SockFilter::new(LOAD_WORD, 0, 0, offset));
        let word = u32::from_be_bytes(*word);
        program.push(SockFilter::new(JUMP_IF_EQUAL, 0, miss as u8, word));
    }
    program
}

/// Ends a program: what comes here passes, what jumps over one instruction is dropped.
fn accept(mut program: Vec<SockFilter>) -> Vec<SockFilter> {
    program.push(SockFilter::new(RETURN, 0, 0, u32::MAX));
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    program
}
