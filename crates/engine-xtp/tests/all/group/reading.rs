//! Packets of every version, as far as these tests look into them.

use engine_xtp::pdu::v3::{BodyV3, PacketKind, PacketV3};
use engine_xtp::pdu::{Body, Format, Options, Packet, SyncNumber, Version};

/// What these tests want to know of a packet.
pub struct Reading {
    pub options: Options,
    pub is_cntl: bool,
    pub sync: SyncNumber,
    /// Of a CNTL.
    pub echo: Option<SyncNumber>,
}

/// Reads a packet; None when its checks are wrong.
pub fn read(version: Version, packet: &[u8]) -> Option<Reading> {
    if version.is_v3() {
        let PacketV3 { header, body } = PacketV3::parse(version, packet).ok()?;
        return Some(Reading {
            options: header.options,
            is_cntl: header.kind == PacketKind::Cntl,
            sync: header.sync,
            echo: match body {
                BodyV3::Cntl(control, _) => Some(control.echo),
                _ => None,
            },
        });
    }
    let Packet { header, body } = Packet::parse(packet).ok()?;
    Some(Reading {
        options: header.options,
        is_cntl: header.format == Format::Cntl,
        sync: header.sync,
        echo: match body {
            Body::Cntl(common) => Some(common.echo),
            _ => None,
        },
    })
}

/// A packet of a trace as text: its time, ps, who sent it, its octets.
pub fn log_line((at_ps, from, octets): &(u64, usize, Vec<u8>)) -> String {
    let us = at_ps / 1_000_000;
    let Ok(Packet { header, body }) = Packet::parse(octets) else {
        return format!("{us:>9} us {from}: {octets:02x?}\n");
    };
    let (format, options, seq, sync) = (header.format, header.options, header.seq, header.sync.0);
    let report = match body {
        Body::Cntl(common) | Body::Ecntl(common, _) | Body::Jcntl { common, .. } => {
            format!("{common:?}")
        }
        _ => format!("{} bytes", header.dlen),
    };
    format!("{us:>9} us {from}: {format:?} {options} seq {seq} sync {sync:x} {report}\n")
}
