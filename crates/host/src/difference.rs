//! Differences between two snapshots.

use crate::snapshot::{CpuTicks, InterfaceCounters, NetworkCounters, Snapshot};
use std::collections::BTreeMap;
use std::time::Duration;

/// Activity of the host between two snapshots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SnapshotDifference {
    /// Time between them.
    pub span: Duration,
    /// Ticks of each processor, by its number.
    pub cpus: BTreeMap<u32, CpuTicks>,
    /// Seconds the ksoftirqd threads ran; None when they are not visible.
    pub softirq_thread_s: Option<f64>,
    /// One-minute load average at the end.
    pub load1: f64,
    /// Counters of the network stack.
    pub counters: NetworkCounters,
    /// Interfaces by name; a new one counts from zero.
    pub interfaces: BTreeMap<String, InterfaceCounters>,
}

/// CPU seconds, summed over processors, by mode. The kernel samples all but `idle_s` at its ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// User mode.
    pub user_s: f64,
    /// The kernel.
    pub system_s: f64,
    /// Interrupts.
    pub irq_s: f64,
    /// Softirqs, including network processing.
    pub softirq_s: f64,
    /// Taken by the hypervisor.
    pub steal_s: f64,
    /// Idle.
    pub idle_s: f64,
}

/// Ticks a second in /proc/stat (USER_HZ), the same on all Linux architectures in use.
const TICKS_PER_S: f64 = 100.0;

impl Snapshot {
    /// The difference from this snapshot to a later one.
    pub fn until(&self, later: &Snapshot) -> SnapshotDifference {
        let softirq_ns = later.softirq_thread_ns.zip(self.softirq_thread_ns);
        let softirq_ns = softirq_ns.map(|(end, start)| end.saturating_sub(start));
        let cpus = later.cpus.iter().map(|(cpu, end)| {
            let start = self.cpus.get(cpu).copied().unwrap_or(*end);
            (*cpu, ticks_between(start, *end))
        });
        let interfaces = later.interfaces.iter().map(|(name, end)| {
            let start = self.interfaces.get(name).copied().unwrap_or_default();
            (name.clone(), interface_between(start, *end))
        });
        SnapshotDifference {
            span: later.at.saturating_duration_since(self.at),
            cpus: cpus.collect(),
            softirq_thread_s: softirq_ns.map(|ns| ns as f64 / 1e9),
            load1: later.load1,
            counters: counters_between(self.counters, later.counters),
            interfaces: interfaces.collect(),
        }
    }
}

/// Adds a later span, which need not follow at once.
impl std::ops::AddAssign for SnapshotDifference {
    fn add_assign(&mut self, later: SnapshotDifference) {
        self.span += later.span;
        for (cpu, ticks) in later.cpus {
            let sum = self.cpus.entry(cpu).or_default();
            *sum = *sum + ticks;
        }
        self.softirq_thread_s = match (self.softirq_thread_s, later.softirq_thread_s) {
            (Some(sum), Some(more)) => Some(sum + more),
            (sum, more) => sum.or(more),
        };
        self.load1 = later.load1;
        let softnet = (
            self.counters.softnet_drops + later.counters.softnet_drops,
            self.counters.softnet_squeezes + later.counters.softnet_squeezes,
        );
        self.counters = self.counters + later.counters;
        (self.counters.softnet_drops, self.counters.softnet_squeezes) = softnet;
        for (name, counts) in later.interfaces {
            let sum = self.interfaces.entry(name).or_default();
            *sum = *sum + counts;
        }
    }
}

impl SnapshotDifference {
    /// Processor time over all processors.
    pub fn cpu(&self) -> CpuTime {
        let sum = |of: fn(&CpuTicks) -> u64| self.cpus.values().map(of).sum::<u64>() as f64;
        CpuTime {
            user_s: sum(|cpu| cpu.user) / TICKS_PER_S,
            system_s: sum(|cpu| cpu.system) / TICKS_PER_S,
            irq_s: sum(|cpu| cpu.irq) / TICKS_PER_S,
            softirq_s: sum(|cpu| cpu.softirq) / TICKS_PER_S,
            steal_s: sum(|cpu| cpu.steal) / TICKS_PER_S,
            idle_s: sum(|cpu| cpu.idle) / TICKS_PER_S,
        }
    }

    /// Available CPU seconds.
    pub fn capacity_s(&self) -> f64 {
        self.span.as_secs_f64() * self.cpus.len() as f64
    }

    /// CPU seconds neither idle nor stolen. The kernel times idleness exactly, so this is more
    /// exact than the sum of the sampled parts; its error is about a tick (10 ms) a processor.
    pub fn busy_s(&self) -> f64 {
        let cpu = self.cpu();
        (self.capacity_s() - cpu.idle_s - cpu.steal_s).max(0.0)
    }

    /// Share of the processors' time the hypervisor took, from 0 to 1.
    pub fn steal_fraction(&self) -> f64 {
        fraction(self.cpu().steal_s, self.capacity_s())
    }

    /// CPU seconds of other processes than those measured, which took `own_cpu_s`. Where ksoftirqd
    /// threads are not visible this is a lower bound.
    pub fn background_s(&self, own_cpu_s: f64) -> f64 {
        let cpu = self.cpu();
        let not_ours = match self.softirq_thread_s {
            Some(softirq_s) => self.busy_s() - softirq_s,
            None => self.busy_s() - cpu.softirq_s - cpu.irq_s,
        };
        (not_ours - own_cpu_s).max(0.0)
    }

    /// Counters of these interfaces together.
    pub fn sum_of(&self, interfaces: &[impl AsRef<str>]) -> InterfaceCounters {
        let counts = interfaces
            .iter()
            .filter_map(|name| self.interfaces.get(name.as_ref()));
        counts.fold(InterfaceCounters::default(), |sum, one| sum + *one)
    }

    /// Mean bytes of a packet these interfaces sent; None when they sent none. On the loopback a
    /// packet may be a super-packet of up to 64 KiB, and link and network headers count.
    pub fn packet_bytes_mean(&self, interfaces: &[impl AsRef<str>]) -> Option<f64> {
        let counts = self.sum_of(interfaces);
        (counts.send_packets > 0).then(|| counts.send_bytes as f64 / counts.send_packets as f64)
    }

    /// The counters as evidence of a trial, by name, unit last; `interfaces` are those the traffic
    /// ran over. `host_ticks` is the number of sampled ticks behind the split by mode.
    pub fn evidence(&self, interfaces: &[impl AsRef<str>]) -> BTreeMap<String, f64> {
        let cpu = self.cpu();
        let sampled_s = cpu.user_s + cpu.system_s + cpu.irq_s + cpu.softirq_s + cpu.steal_s;
        let mut evidence = BTreeMap::from([
            ("host_user_s", cpu.user_s),
            ("host_system_s", cpu.system_s),
            ("host_irq_s", cpu.irq_s),
            ("host_softirq_s", cpu.softirq_s),
            ("host_steal_s", cpu.steal_s),
            ("host_busy_s", self.busy_s()),
            ("host_ticks", (sampled_s * TICKS_PER_S).round()),
            ("host_load1", self.load1),
            ("host_span_s", self.span.as_secs_f64()),
        ]);
        if let Some(softirq_s) = self.softirq_thread_s {
            evidence.insert("host_softirq_thread_s", softirq_s);
        }
        let is_known = |name: &dyn AsRef<str>| self.interfaces.contains_key(name.as_ref());
        if interfaces.iter().any(|name| is_known(name)) {
            let packets = self.sum_of(interfaces).send_packets;
            evidence.insert("interface_packets", packets as f64);
        }
        if let Some(bytes) = self.packet_bytes_mean(interfaces) {
            evidence.insert("packet_bytes_mean", bytes);
        }
        let owned = evidence.into_iter();
        owned
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

pub(crate) fn fraction(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn ticks_between(start: CpuTicks, end: CpuTicks) -> CpuTicks {
    CpuTicks {
        user: end.user.saturating_sub(start.user),
        system: end.system.saturating_sub(start.system),
        irq: end.irq.saturating_sub(start.irq),
        softirq: end.softirq.saturating_sub(start.softirq),
        steal: end.steal.saturating_sub(start.steal),
        idle: end.idle.saturating_sub(start.idle),
    }
}

fn counters_between(start: NetworkCounters, end: NetworkCounters) -> NetworkCounters {
    let grew = |of: fn(&NetworkCounters) -> u64| of(&end).saturating_sub(of(&start));
    NetworkCounters {
        udp_receive_buffer_drops: grew(|c| c.udp_receive_buffer_drops),
        udp_send_buffer_drops: grew(|c| c.udp_send_buffer_drops),
        udp_receive_errors: grew(|c| c.udp_receive_errors),
        tcp_segments_sent: grew(|c| c.tcp_segments_sent),
        tcp_retransmissions: grew(|c| c.tcp_retransmissions),
        tcp_timeouts: grew(|c| c.tcp_timeouts),
        tcp_listen_drops: grew(|c| c.tcp_listen_drops),
        softnet_drops: grew(|c| c.softnet_drops),
        softnet_squeezes: grew(|c| c.softnet_squeezes),
    }
}

fn interface_between(start: InterfaceCounters, end: InterfaceCounters) -> InterfaceCounters {
    InterfaceCounters {
        receive_bytes: end.receive_bytes.saturating_sub(start.receive_bytes),
        receive_packets: end.receive_packets.saturating_sub(start.receive_packets),
        send_bytes: end.send_bytes.saturating_sub(start.send_bytes),
        send_packets: end.send_packets.saturating_sub(start.send_packets),
        errors: end.errors.saturating_sub(start.errors),
        drops: end.drops.saturating_sub(start.drops),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A span of a second with these counts.
    fn span(user: u64, steal: u64, packets: u64, softnet_drops: u64) -> SnapshotDifference {
        SnapshotDifference {
            span: Duration::from_secs(1),
            cpus: BTreeMap::from([(
                0,
                CpuTicks {
                    user,
                    steal,
                    ..CpuTicks::default()
                },
            )]),
            counters: NetworkCounters {
                softnet_drops,
                udp_receive_errors: 1,
                ..NetworkCounters::default()
            },
            interfaces: BTreeMap::from([(
                "lo".to_owned(),
                InterfaceCounters {
                    send_packets: packets,
                    ..InterfaceCounters::default()
                },
            )]),
            ..SnapshotDifference::default()
        }
    }

    #[test]
    fn spans_that_do_not_follow_at_once_add_up() {
        let mut sum = SnapshotDifference::default();
        sum += span(3, 1, 10, 2);
        sum += span(4, 2, 20, 5);
        assert_eq!(sum.span, Duration::from_secs(2));
        assert_eq!((sum.cpus[&0].user, sum.cpus[&0].steal), (7, 3));
        assert_eq!(sum.sum_of(&["lo"]).send_packets, 30);
        let counters = sum.counters;
        assert_eq!(
            (counters.softnet_drops, counters.udp_receive_errors),
            (7, 2)
        );
    }
}
