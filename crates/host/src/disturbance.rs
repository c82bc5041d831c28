//! What disturbed a trial.

use crate::difference::{Difference, fraction};

/// What a trial was expected to do to the host.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Processor seconds of the project's own processes, workers and the measuring one together.
    pub own_s: f64,
    /// The interface the traffic runs over.
    pub interface: String,
    /// Whether a full receive buffer drops messages by design: the transport has no flow control.
    /// The trial's ledger counts those.
    pub drops: bool,
    /// Whether packets run over a link with a queue or faults of its own, so that TCP sends again
    /// and an interface drops by design.
    pub losses: bool,
}

impl Default for Expected {
    /// On the loopback, nothing dropped, nothing spent.
    fn default() -> Expected {
        Expected {
            own_s: 0.0,
            interface: "lo".into(),
            drops: false,
            losses: false,
        }
    }
}

/// Share of the processors' time the hypervisor may take before a trial counts as disturbed.
pub const STEAL_MAX: f64 = 0.02;

/// Processors other work may keep busy before a trial counts as disturbed.
pub const FOREIGN_CORES_MAX: f64 = 0.3;

/// Share of TCP's segments that may be sent again: a tail-loss probe now and then is normal.
const RETRANSMITTED_MAX: f64 = 1e-4;

/// Packets a second another interface may carry; each costs about a microsecond of some processor.
const FOREIGN_PACKETS_PER_S_MAX: f64 = 20_000.0;

/// What of `seen` would make a reader doubt the trial, one phrase each; empty for nothing.
pub fn disturbances(seen: &Difference, expected: &Expected) -> Vec<String> {
    let processors = [steal(seen), foreign_load(seen, expected)];
    let found = processors.into_iter().flatten();
    let found = found.chain(interface_faults(seen, expected));
    let found = found.chain(foreign_traffic(seen, expected));
    found.chain(stack_drops(seen, expected)).collect()
}

fn steal(seen: &Difference) -> Option<String> {
    let steal = seen.steal_fraction();
    (steal > STEAL_MAX).then(|| {
        let percent = steal * 100.0;
        format!("the hypervisor took {percent:.1} % of the processors' time (steal)")
    })
}

fn foreign_load(seen: &Difference, expected: &Expected) -> Option<String> {
    let span_s = seen.span.as_secs_f64();
    let cores = fraction(seen.foreign_s(expected.own_s), span_s);
    // Each processor's idle time is cut to whole ticks of 10 ms at both ends.
    let rounding = fraction(0.01 * (seen.cpus.len() as f64).sqrt(), span_s);
    (cores > FOREIGN_CORES_MAX + rounding)
        .then(|| format!("other work kept {cores:.1} processors busy"))
}

fn interface_faults(seen: &Difference, expected: &Expected) -> Vec<String> {
    let name = &expected.interface;
    let Some(counts) = seen.interfaces.get(name) else {
        return Vec::new();
    };
    let fault =
        |count: u64, what: &str| (count > 0).then(|| format!("{name} {what} {count} packets"));
    let faults = [
        fault(counts.errors, "damaged"),
        fault(counts.drops, "dropped").filter(|_| !expected.losses),
    ];
    faults.into_iter().flatten().collect()
}

fn foreign_traffic(seen: &Difference, expected: &Expected) -> Vec<String> {
    let span_s = seen.span.as_secs_f64();
    let others = seen.interfaces.iter();
    let others = others.filter(|(name, _)| **name != expected.interface);
    let busy = others.filter_map(|(name, counts)| {
        let packets = counts.receive_packets + counts.send_packets;
        let per_s = fraction(packets as f64, span_s);
        (per_s > FOREIGN_PACKETS_PER_S_MAX)
            .then(|| format!("{name} carried {per_s:.0} packets a second meanwhile"))
    });
    busy.collect()
}

fn stack_drops(seen: &Difference, expected: &Expected) -> Vec<String> {
    let counts = seen.counters;
    let mut found = Vec::new();
    if counts.softnet_drops > 0 {
        let count = counts.softnet_drops;
        found.push(format!(
            "a processor's input queue dropped {count} packets (softnet)"
        ));
    }
    if counts.udp_receive_buffer_drops > 0 && !expected.drops {
        let count = counts.udp_receive_buffer_drops;
        found.push(format!("full receive buffers dropped {count} datagrams"));
    }
    let again = counts.tcp_retransmissions;
    if !expected.losses
        && again > 2
        && fraction(again as f64, counts.tcp_segments_sent as f64) > RETRANSMITTED_MAX
    {
        found.push(format!("TCP sent {again} segments again"));
    }
    if counts.tcp_listen_drops > 0 {
        let count = counts.tcp_listen_drops;
        found.push(format!("a full listen queue refused {count} connections"));
    }
    found
}
