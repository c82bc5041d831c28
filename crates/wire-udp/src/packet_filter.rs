//! Filters of sockets (classic BPF) that pass the packets of one IP address.

use socket2::SockFilter;
use std::net::IpAddr;

/// `ld [k]`: loads a word of the packet (BPF_LD | BPF_W | BPF_ABS).
const LOAD_WORD: u16 = 0x20;

/// `jeq k, jt, jf` (BPF_JMP | BPF_JEQ | BPF_K).
const JUMP_IF_EQUAL: u16 = 0x15;

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
    filter(address, &Offsets { ipv4: 12, ipv6: 8 })
}

/// The program that passes packets to `address`.
pub fn destination_filter(address: IpAddr) -> Vec<SockFilter> {
    filter(address, &Offsets { ipv4: 16, ipv6: 24 })
}

/// Compares the address word by word.
fn filter(address: IpAddr, at: &Offsets) -> Vec<SockFilter> {
    let (start, octets) = match address {
        IpAddr::V4(address) => (at.ipv4, address.octets().to_vec()),
        IpAddr::V6(address) => (at.ipv6, address.octets().to_vec()),
    };
    let (words, _) = octets.as_chunks::<4>();
    let mut program = Vec::new();
    for (index, word) in words.iter().enumerate() {
        // On a mismatch, jump over the remaining comparisons to the second return, which drops.
        let miss = 2 * (words.len() - index - 1) + 1;
        let offset = NETWORK_HEADER + start + 4 * index as u32;
        program.push(SockFilter::new(LOAD_WORD, 0, 0, offset));
        let word = u32::from_be_bytes(*word);
        program.push(SockFilter::new(JUMP_IF_EQUAL, 0, miss as u8, word));
    }
    program.push(SockFilter::new(RETURN, 0, 0, u32::MAX));
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    program
}
