//! Primitives of each message, written and read without an allocation.

use super::primitive::{number, word};

/// The octets of T_DATA_REQ, without an allocation.
pub fn write_data_request(more: bool) -> [u8; 8] {
    let mut octets = [0; 8];
    octets[..4].copy_from_slice(&number::DATA_REQ.to_ne_bytes());
    octets[4..].copy_from_slice(&u32::from(more).to_ne_bytes());
    octets
}

/// Octets of the longest address: those of `struct sockaddr_in6`.
pub(crate) const ADDRESS_MAX: usize = 28;

/// The octets of T_UNITDATA_REQ in `room`, without an allocation.
pub(crate) fn write_datagram_request<'a>(
    destination: &[u8],
    room: &'a mut [u8; 20 + ADDRESS_MAX],
) -> &'a [u8] {
    let len = destination.len().min(ADDRESS_MAX);
    let words = [number::UNITDATA_REQ, len as u32, 20, 0, 0];
    for (field, word) in room.chunks_exact_mut(4).zip(words) {
        field.copy_from_slice(&word.to_ne_bytes());
    }
    room[20..20 + len].copy_from_slice(&destination[..len]);
    &room[..20 + len]
}

/// Where a T_UNITDATA_REQ goes, in place; None when it is none, or the address lies outside.
pub(crate) fn datagram_destination(octets: &[u8]) -> Option<&[u8]> {
    let field = |index| word(octets, index).ok();
    let (len, at) = (field(1)? as usize, field(2)? as usize);
    let end = at.checked_add(len)?;
    let found = octets.get(at..end)?;
    (field(0)? == number::UNITDATA_REQ).then_some(found)
}
