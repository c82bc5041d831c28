//! Ranges of multicast groups.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The groups whose first bits are those of an address, written `239.1.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRange {
    first: IpAddr,
    prefix_len: u32,
}

impl GroupRange {
    /// Whether `group` is in the range.
    pub fn contains(&self, group: IpAddr) -> bool {
        let (first, first_bits) = bits(self.first);
        let (other, other_bits) = bits(group);
        let shift = first_bits - self.prefix_len;
        // A prefix of length 0 shifts all bits out.
        let prefix = |value: u128| value.checked_shr(shift).unwrap_or(0);
        first_bits == other_bits && group.is_multicast() && prefix(first) == prefix(other)
    }
}

/// An address as a number, and how many bits it has.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (v4.to_bits().into(), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

impl FromStr for GroupRange {
    type Err = String;

    fn from_str(text: &str) -> Result<GroupRange, String> {
        let wrong = || format!("'{text}' is no range of groups; use one such as 239.1.0.0/16");
        let (address, len) = text.split_once('/').unwrap_or((text, ""));
        let first: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = bits(first).1;
        let prefix_len = match len {
            "" if !text.contains('/') => most,
            len => len.parse().map_err(|_| wrong())?,
        };
        if !first.is_multicast() || prefix_len > most {
            return Err(wrong());
        }
        Ok(GroupRange { first, prefix_len })
    }
}

impl fmt::Display for GroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_only_groups_with_the_prefix() {
        let range: GroupRange = "239.1.0.0/16".parse().expect("a range");
        let contains = |text: &str| range.contains(text.parse().expect("an address"));
        assert!(contains("239.1.2.3") && contains("239.1.255.255"));
        assert!(!contains("239.2.0.0") && !contains("ff15::1") && !contains("10.1.2.3"));
        let one: GroupRange = "ff15::1".parse().expect("a range");
        assert!(one.contains("ff15::1".parse().expect("an address")));
        assert!(!one.contains("ff15::2".parse().expect("an address")));
        let all: GroupRange = "ff00::/0".parse().expect("a range");
        assert!(all.contains("ff15::2".parse().expect("an address")));
        assert!(!all.contains("::1".parse().expect("an address")));
    }

    #[test]
    fn range_that_is_no_group_is_refused() {
        for wrong in [
            "",
            "239.1.0.0/33",
            "10.0.0.0/8",
            "239.1.0.0/",
            "239.1.0.0/x",
            "x/8",
        ] {
            assert!(wrong.parse::<GroupRange>().is_err(), "{wrong}");
        }
    }
}
