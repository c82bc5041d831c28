//! The identifier of the host's last boot.

use std::fs;

/// Where the kernel shows it (random(4)).
const FILE: &str = "/proc/sys/kernel/random/boot_id";

/// The boot identifier: equal for all processes under one kernel, whatever their namespaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BootId([u8; 16]);

impl BootId {
    /// The identifier with these octets.
    pub const fn new(octets: [u8; 16]) -> BootId {
        BootId(octets)
    }

    /// That of this host; None where the kernel shows none.
    pub fn of_this_host() -> Option<BootId> {
        parse(&fs::read_to_string(FILE).ok()?)
    }

    /// The key of functions that only this host can compute.
    pub(crate) fn key(&self) -> [u64; 2] {
        let number = u128::from_le_bytes(self.0);
        [number as u64, (number >> 64) as u64]
    }
}

impl std::fmt::Debug for BootId {
    /// Not the octets: who has them can make offers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BootId")
    }
}

/// An identifier as RFC 9562 section 4 writes it.
fn parse(text: &str) -> Option<BootId> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let is_whole = digits.len() == 32 && digits.chars().all(|c| c.is_ascii_hexdigit());
    let number = is_whole.then(|| u128::from_str_radix(&digits, 16).ok())??;
    Some(BootId(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifier_is_read_from_its_text_form_only() {
        let text = "01234567-89ab-cdef-0123-456789abcdef\n";
        let octets = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef_u128.to_be_bytes();
        assert_eq!(parse(text), Some(BootId(octets)));
        for wrong in ["", "01234567", "+1234567-89ab-cdef-0123-456789abcdef"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn identifier_of_this_host_is_the_same_each_time() {
        assert_eq!(BootId::of_this_host(), BootId::of_this_host());
    }
}
