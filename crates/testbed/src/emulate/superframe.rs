//! GSO super-frames: several segments in one frame, to be segmented by the interface.
//!
//! A `struct virtio_net_hdr` of ten octets in front gives the segment size. It is passed on
//! unchanged, so that nothing is segmented or checksummed.

/// Octets of the virtio header.
pub(crate) const VNET_HEADER_LEN: usize = 10;

/// Octets of an Ethernet header.
const ETHER_HEADER_LEN: usize = 14;

/// Frames and octets on the wire of a frame with its virtio header.
pub(crate) fn wire_frames(octets: &[u8]) -> (u64, usize) {
    let len = octets.len().saturating_sub(VNET_HEADER_LEN);
    let segment = u16_at(octets, 4);
    if octets.get(1).is_none_or(|kind| *kind == 0) || segment == 0 {
        return (1, len);
    }
    let header = header_len(octets).clamp(ETHER_HEADER_LEN, len);
    let segments = (len - header).div_ceil(segment).max(1);
    (segments as u64, len + (segments - 1) * header)
}

/// Octets of all headers of a segment: up to the transport header (csum_start), and that header.
fn header_len(octets: &[u8]) -> usize {
    const TCP: [u8; 2] = [1, 4];
    const OFFSET_IN_TCP: usize = 12;
    const UDP: usize = 8;
    let start = u16_at(octets, 6);
    let kind = octets.get(1).copied().unwrap_or(0) & 0x7f;
    let frame = octets.get(VNET_HEADER_LEN..).unwrap_or_default();
    let transport = if TCP.contains(&kind) {
        let word = frame.get(start + OFFSET_IN_TCP).copied().unwrap_or(0x50);
        usize::from(word >> 4) * 4
    } else {
        UDP
    };
    start + transport
}

/// A number of the virtio header, in native byte order.
fn u16_at(octets: &[u8], at: usize) -> usize {
    let pair = octets.get(at..at + 2);
    pair.map_or(0, |pair| {
        usize::from(u16::from_ne_bytes([pair[0], pair[1]]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, segment: u16, start: u16, len: usize) -> Vec<u8> {
        let mut octets = vec![0; VNET_HEADER_LEN + len];
        octets[1] = kind;
        octets[4..6].copy_from_slice(&segment.to_ne_bytes());
        octets[6..8].copy_from_slice(&start.to_ne_bytes());
        octets
    }

    #[test]
    fn tcp_super_frame_counts_segment_headers() {
        let mut octets = frame(1, 1448, 34, 66 + 3 * 1448);
        octets[VNET_HEADER_LEN + 34 + 12] = 0x80;
        assert_eq!(wire_frames(&octets), (3, 3 * 1514));
    }

    #[test]
    fn udp_super_frame_with_short_last_segment() {
        let octets = frame(5, 1000, 34, 42 + 2500);
        assert_eq!(wire_frames(&octets), (3, 2500 + 3 * 42));
    }

    #[test]
    fn non_gso_and_malformed_headers_count_one_frame() {
        assert_eq!(wire_frames(&frame(0, 0, 0, 60)), (1, 60));
        assert_eq!(wire_frames(&[]), (1, 0));
        let (frames, _) = wire_frames(&frame(1, 1, 60_000, 100));
        assert_eq!(frames, 1);
    }
}
