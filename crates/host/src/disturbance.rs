//! Disturbances of a trial.

use crate::difference::{SnapshotDifference, fraction};

/// Expected effects of a trial on the host.
#[derive(Clone, Debug)]
pub struct Expected {
    /// CPU seconds of the measurement's own processes, workers included.
    pub own_cpu_s: f64,
    /// The interfaces the traffic runs over.
    pub interfaces: Vec<String>,
    /// Whether a full receive buffer drops messages by design: the transport has no flow control.
    /// The trial's ledger counts those.
    pub expects_drops: bool,
    /// Whether packets cross a link with queues or faults, so that TCP retransmits and an interface
    /// drops by design.
    pub expects_losses: bool,
}

impl Default for Expected {
    /// On the loopback, without expected drops or CPU time.
    fn default() -> Expected {
        Expected {
            own_cpu_s: 0.0,
            interfaces: vec!["lo".into()],
            expects_drops: false,
            expects_losses: false,
        }
    }
}

/// Share of the processors' time the hypervisor may take before a trial counts as disturbed.
pub const STEAL_MAX: f64 = 0.02;

/// Processors that background load may keep busy before a trial counts as disturbed.
pub const BACKGROUND_CORES_MAX: f64 = 0.3;

/// Share of TCP segments that may be retransmitted: an occasional tail-loss probe is normal.
const RETRANSMITTED_MAX: f64 = 1e-4;

/// Packets a second another interface may carry; each costs about a microsecond of CPU time.
const BACKGROUND_PACKETS_PER_S_MAX: f64 = 20_000.0;

/// The disturbances in `seen`, one phrase each; empty for none.
pub fn disturbances(seen: &SnapshotDifference, expected: &Expected) -> Vec<String> {
    let processors = [steal(seen), background_load(seen, expected)];
    let found = processors.into_iter().flatten();
    let found = found.chain(interface_faults(seen, expected));
    let found = found.chain(background_traffic(seen, expected));
    found.chain(stack_drops(seen, expected)).collect()
}

fn steal(seen: &SnapshotDifference) -> Option<String> {
    let steal = seen.steal_fraction();
    (steal > STEAL_MAX).then(|| {
        let percent = steal * 100.0;
        format!("the hypervisor took {percent:.1} % of the processors' time (steal)")
    })
}

fn background_load(seen: &SnapshotDifference, expected: &Expected) -> Option<String> {
    let span_s = seen.span.as_secs_f64();
    let cores = fraction(seen.background_s(expected.own_cpu_s), span_s);
    // Each processor's idle time is rounded to ticks of 10 ms at both ends.
    let rounding = fraction(0.01 * (seen.cpus.len() as f64).sqrt(), span_s);
    (cores > BACKGROUND_CORES_MAX + rounding)
        .then(|| format!("other work kept {cores:.1} processors busy"))
}

fn interface_faults(seen: &SnapshotDifference, expected: &Expected) -> Vec<String> {
    let own = expected.interfaces.iter();
    let faults = own.filter_map(|name| {
        let counts = seen.interfaces.get(name)?;
        let fault =
            |count: u64, what: &str| (count > 0).then(|| format!("{name} {what} {count} packets"));
        Some([
            fault(counts.errors, "damaged"),
            fault(counts.drops, "dropped").filter(|_| !expected.expects_losses),
        ])
    });
    faults.flatten().flatten().collect()
}

fn background_traffic(seen: &SnapshotDifference, expected: &Expected) -> Vec<String> {
    let span_s = seen.span.as_secs_f64();
    let other_interfaces = seen.interfaces.iter();
    let other_interfaces = other_interfaces.filter(|(name, _)| !expected.interfaces.contains(name));
    let busy = other_interfaces.filter_map(|(name, counts)| {
        let packets = counts.receive_packets + counts.send_packets;
        let per_s = fraction(packets as f64, span_s);
        (per_s > BACKGROUND_PACKETS_PER_S_MAX)
            .then(|| format!("{name} carried {per_s:.0} packets a second meanwhile"))
    });
    busy.collect()
}

fn stack_drops(seen: &SnapshotDifference, expected: &Expected) -> Vec<String> {
    let counts = seen.counters;
    let mut found = Vec::new();
    if counts.softnet_drops > 0 {
        let count = counts.softnet_drops;
        found.push(format!(
            "a processor's input queue dropped {count} packets (softnet)"
        ));
    }
    if counts.udp_receive_buffer_drops > 0 && !expected.expects_drops {
        let count = counts.udp_receive_buffer_drops;
        found.push(format!("full receive buffers dropped {count} datagrams"));
    }
    let again = counts.tcp_retransmissions;
    if !expected.expects_losses
        && again > 2
        && fraction(again as f64, counts.tcp_segments_sent as f64) > RETRANSMITTED_MAX
    {
        found.push(format!("TCP retransmitted {again} segments"));
    }
    if counts.tcp_listen_drops > 0 {
        let count = counts.tcp_listen_drops;
        found.push(format!("a full listen queue refused {count} connections"));
    }
    found
}
