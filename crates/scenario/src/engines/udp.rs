//! UDP in scenarios.

use super::{ASSOCIATIONS_MAX, EngineSpec};
use crate::file::MediumSpec;
use engine_udp::UdpConfig;

/// Octets of a packet: a header and some data, and what 16 bits can say.
const PACKETS: std::ops::RangeInclusive<u64> = 64..=65_535;

/// The configuration of UDP on `medium`, whose longest packet fragments have unless `packet` says another length.
/// Errors: the first value out of range, in one line.
pub(super) fn config(spec: &EngineSpec, medium: &MediumSpec) -> Result<UdpConfig, String> {
    let usual = UdpConfig::default();
    let of_medium = medium.mtu.as_ref().map(|mtu| mtu.get_ref().0);
    let packet = spec.packet.map(|octets| octets.0).or(of_medium);
    let packet = packet.unwrap_or(usual.packet_len as u64);
    if !PACKETS.contains(&packet) {
        let (least, most) = (PACKETS.start(), PACKETS.end());
        return Err(format!(
            "a packet of {packet} octets is out of range; use {least} to {most}"
        ));
    }
    Ok(UdpConfig {
        packet_len: packet as usize,
        checksum: spec.checksum.unwrap_or(usual.checksum),
        receive_buffer: spec.window.map_or(usual.receive_buffer, |bytes| bytes.0),
        associations_max: ASSOCIATIONS_MAX,
        ..usual
    })
}
