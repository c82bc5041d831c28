//! Two endpoints of VMTP in virtual time.

use engine::test_kit::TransactionPair;
use engine_vmtp::pdu::{VmtpHeader, packet};
use engine_vmtp::{Vmtp, VmtpConfig};
use std::time::Duration;

/// Makes small numbers identifiers.
pub const BASE: u64 = 0x0000_0001_f000_0000;

pub type Pair = TransactionPair<Vmtp, VmtpHeader>;

/// The engine of a station.
pub fn engine_at(station: u32, seed: u64, secret_seed: u64, config: &VmtpConfig) -> Vmtp {
    Vmtp::new(VmtpConfig {
        entity_base: BASE,
        host: 0xf000_0000 | station,
        seed,
        secret: engine::Secret::from_seed(secret_seed),
        ..config.clone()
    })
}

pub fn pair_of(seed: u64, config: &VmtpConfig) -> Pair {
    let parse = |octets: &[u8]| packet::parse(octets).expect("its own packets are right");
    let make = |station| engine_at(station, seed, seed << 1 | u64::from(station), config);
    Pair::new(seed, parse, make)
}

/// Two endpoints that do not probe at their start.
pub fn settled_pair(seed: u64) -> Pair {
    let config = VmtpConfig {
        packet_lifetime: Duration::ZERO,
        ..VmtpConfig::default()
    };
    pair_of(seed, &config)
}

/// Packets that carry segment data.
pub fn data_packets(pair: &Pair) -> usize {
    let with_data = |sent: &&engine::test_kit::Sent<VmtpHeader>| !sent.header.delivery.is_empty();
    pair.sent.iter().filter(with_data).count()
}
