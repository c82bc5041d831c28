//! Primitives of each message, written and read without an allocation.

use super::primitive::{number, word};

/// The octets of T_DATA_REQ, without an allocation.
pub fn write_data_request(more: bool) -> [u8; 8] {
    write_data(number::DATA_REQ, more)
}

/// The octets of a primitive of data, by its number.
pub(crate) fn write_data(number: u32, more: bool) -> [u8; 8] {
    let mut octets = [0; 8];
    octets[..4].copy_from_slice(&number.to_ne_bytes());
    octets[4..].copy_from_slice(&u32::from(more).to_ne_bytes());
    octets
}

/// Octets of the longest address: 28 are those of `struct sockaddr_in6`, a name of the loop-back may be longer.
pub(crate) const ADDRESS_MAX: usize = 112;

/// The octets of T_UNITDATA_REQ in `room`, without an allocation.
pub(crate) fn write_datagram_request<'a>(
    destination: &[u8],
    room: &'a mut [u8; 20 + ADDRESS_MAX],
) -> &'a [u8] {
    write_datagram(number::UNITDATA_REQ, destination, room)
}

/// The octets of T_UNITDATA_IND in `room`, without an allocation.
pub(crate) fn write_datagram_indication<'a>(
    source: &[u8],
    room: &'a mut [u8; 20 + ADDRESS_MAX],
) -> &'a [u8] {
    write_datagram(number::UNITDATA_IND, source, room)
}

fn write_datagram<'a>(
    number: u32,
    address: &[u8],
    room: &'a mut [u8; 20 + ADDRESS_MAX],
) -> &'a [u8] {
    let len = address.len().min(ADDRESS_MAX);
    let words = [number, len as u32, 20, 0, 0];
    for (field, word) in room.chunks_exact_mut(4).zip(words) {
        field.copy_from_slice(&word.to_ne_bytes());
    }
    room[20..20 + len].copy_from_slice(&address[..len]);
    &room[..20 + len]
}

/// Where a T_UNITDATA_REQ goes, in place; None when it is none, or the address lies outside.
pub(crate) fn datagram_destination(octets: &[u8]) -> Option<&[u8]> {
    address_of(number::UNITDATA_REQ, octets)
}

/// Where a T_UNITDATA_IND comes from, in place; None when it is none, or the address lies outside.
pub(crate) fn datagram_source(octets: &[u8]) -> Option<&[u8]> {
    address_of(number::UNITDATA_IND, octets)
}

/// The options of a datagram's primitive, in place; empty when they lie outside.
pub(crate) fn datagram_options(octets: &[u8]) -> &[u8] {
    part(octets, 3).unwrap_or_default()
}

/// The options of data (T_OPTDATA_REQ, T_OPTDATA_IND), in place; empty where there are none.
pub(crate) fn data_options(octets: &[u8]) -> &[u8] {
    match word(octets, 0) {
        Ok(number::OPTDATA_REQ | number::OPTDATA_IND) => part(octets, 2).unwrap_or_default(),
        _ => &[],
    }
}

/// The octets that the length and offset at two fields name.
fn part(octets: &[u8], index: usize) -> Option<&[u8]> {
    let field = |index| word(octets, index).ok();
    let (len, at) = (field(index)? as usize, field(index + 1)? as usize);
    if len == 0 {
        return Some(&[]);
    }
    octets.get(at..at.checked_add(len)?)
}

fn address_of(number: u32, octets: &[u8]) -> Option<&[u8]> {
    // A datagram whose options lie outside is none.
    part(octets, 3)?;
    let found = part(octets, 1)?;
    (word(octets, 0).ok()? == number).then_some(found)
}
