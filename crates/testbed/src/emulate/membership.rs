//! Group membership reports and queries, which kernels send when they like: IGMP (RFC 3376) and MLD
//! (RFC 3810).

/// Offset of the type in an Ethernet header, and octets of the header.
const ETHER_TYPE_AT: usize = 12;
const ETHER_HEADER_LEN: usize = 14;

const ETHER_TYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHER_TYPE_IPV6: [u8; 2] = [0x86, 0xdd];

/// Offset of the protocol in an IPv4 header, and its value for IGMP.
const IPV4_PROTOCOL_AT: usize = 9;
const IGMP: u8 = 2;

/// Offset of the next header in an IPv6 header, octets of that header, and of the hop-by-hop header with
/// the Router Alert option that precedes every MLD message (RFC 3810 section 5).
const IPV6_NEXT_HEADER_AT: usize = 6;
const IPV6_HEADER_LEN: usize = 40;
const HOP_BY_HOP: u8 = 0;
const HOP_BY_HOP_LEN: usize = 8;
const ICMPV6: u8 = 58;

/// ICMPv6 types: Multicast Listener Query, Report and Done of version 1, Report of version 2.
const MLD_TYPES: [u8; 4] = [130, 131, 132, 143];

/// Whether `frame`, which begins with an Ethernet header, carries IGMP or MLD.
pub(crate) fn is_group_membership(frame: &[u8]) -> bool {
    let Some((header, packet)) = frame.split_at_checked(ETHER_HEADER_LEN) else {
        return false;
    };
    let octet = |at: usize| packet.get(at).copied();
    if header[ETHER_TYPE_AT..] == ETHER_TYPE_IPV4 {
        return octet(IPV4_PROTOCOL_AT) == Some(IGMP);
    }
    header[ETHER_TYPE_AT..] == ETHER_TYPE_IPV6
        && octet(IPV6_NEXT_HEADER_AT) == Some(HOP_BY_HOP)
        && octet(IPV6_HEADER_LEN) == Some(ICMPV6)
        && octet(IPV6_HEADER_LEN + HOP_BY_HOP_LEN).is_some_and(|kind| MLD_TYPES.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ether_type: [u8; 2], octets: &[(usize, u8)]) -> Vec<u8> {
        let mut frame = vec![0; ETHER_HEADER_LEN + 76];
        frame[ETHER_TYPE_AT..ETHER_HEADER_LEN].copy_from_slice(&ether_type);
        for (at, octet) in octets {
            frame[ETHER_HEADER_LEN + at] = *octet;
        }
        frame
    }

    #[test]
    fn igmp_and_mld_are_known_whatever_their_version() {
        assert!(is_group_membership(&frame(ETHER_TYPE_IPV4, &[(9, 2)])));
        for kind in [130, 131, 132, 143] {
            let mld = frame(ETHER_TYPE_IPV6, &[(40, 58), (48, kind)]);
            assert!(is_group_membership(&mld), "{kind}");
        }
    }

    #[test]
    fn all_else_is_traffic() {
        for other in [
            frame(ETHER_TYPE_IPV4, &[(9, 17)]),
            // An echo request behind a hop-by-hop header, and UDP.
            frame(ETHER_TYPE_IPV6, &[(40, 58), (48, 128)]),
            frame(ETHER_TYPE_IPV6, &[(6, 17), (40, 58), (48, 143)]),
            frame([0x08, 0x06], &[(9, 2)]),
            frame(ETHER_TYPE_IPV4, &[])[..20].to_vec(),
            Vec::new(),
        ] {
            assert!(!is_group_membership(&other), "{other:?}");
        }
    }
}
