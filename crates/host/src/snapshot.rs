//! Counters of the whole host, cheap enough to read before and after each trial.

use crate::kernel_files::KernelFiles;
use crate::softirq_threads;
use std::collections::BTreeMap;
use std::time::Instant;

/// The host's counters at one moment. Network counters are those of the process's network
/// namespace. Counters that the kernel does not show are zero.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) cpus: BTreeMap<u32, CpuTicks>,
    pub(crate) softirq_thread_ns: Option<u64>,
    pub(crate) load1: f64,
    pub(crate) counters: NetworkCounters,
    pub(crate) interfaces: BTreeMap<String, InterfaceCounters>,
}

/// CPU time by mode since boot, in ticks of 1/100 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// User mode, reniced processes included.
    pub user: u64,
    /// The kernel, on behalf of processes.
    pub system: u64,
    /// Interrupts.
    pub irq: u64,
    /// Softirqs, including network processing.
    pub softirq: u64,
    /// Steal: taken by the hypervisor while there was work.
    pub steal: u64,
    /// Idle, waiting for a disk included.
    pub idle: u64,
}

/// Counters of the network stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Datagrams dropped by a full receive buffer, UDP and UDP-Lite, IPv4 and IPv6.
    pub udp_receive_buffer_drops: u64,
    /// Datagrams dropped by a full send buffer.
    pub udp_send_buffer_drops: u64,
    /// Datagrams not delivered, a full receive buffer and a bad checksum included.
    pub udp_receive_errors: u64,
    /// TCP segments sent, without retransmissions.
    pub tcp_segments_sent: u64,
    /// TCP segments retransmitted.
    pub tcp_retransmissions: u64,
    /// TCP retransmission timeouts.
    pub tcp_timeouts: u64,
    /// Connections refused because the listener's queue was full.
    pub tcp_listen_drops: u64,
    /// Packets dropped because a processor's input queue was full.
    pub softnet_drops: u64,
    /// Times a processor's packet processing ran out of its quota (time_squeeze).
    pub softnet_squeezes: u64,
}

/// Counters of a network interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Bytes received.
    pub receive_bytes: u64,
    /// Packets received; a segmented super-packet counts once.
    pub receive_packets: u64,
    /// Bytes sent.
    pub send_bytes: u64,
    /// Packets sent.
    pub send_packets: u64,
    /// Packets damaged, in both directions.
    pub errors: u64,
    /// Packets dropped, in both directions.
    pub drops: u64,
}

impl std::ops::Add for CpuTicks {
    type Output = CpuTicks;

    fn add(self, other: CpuTicks) -> CpuTicks {
        CpuTicks {
            user: self.user + other.user,
            system: self.system + other.system,
            irq: self.irq + other.irq,
            softirq: self.softirq + other.softirq,
            steal: self.steal + other.steal,
            idle: self.idle + other.idle,
        }
    }
}

impl std::ops::Add for NetworkCounters {
    type Output = NetworkCounters;

    fn add(self, other: NetworkCounters) -> NetworkCounters {
        NetworkCounters {
            udp_receive_buffer_drops: self.udp_receive_buffer_drops
                + other.udp_receive_buffer_drops,
            udp_send_buffer_drops: self.udp_send_buffer_drops + other.udp_send_buffer_drops,
            udp_receive_errors: self.udp_receive_errors + other.udp_receive_errors,
            tcp_segments_sent: self.tcp_segments_sent + other.tcp_segments_sent,
            tcp_retransmissions: self.tcp_retransmissions + other.tcp_retransmissions,
            tcp_timeouts: self.tcp_timeouts + other.tcp_timeouts,
            tcp_listen_drops: self.tcp_listen_drops + other.tcp_listen_drops,
            // These two are per processor, not per namespace.
            softnet_drops: self.softnet_drops,
            softnet_squeezes: self.softnet_squeezes,
        }
    }
}

impl std::ops::Add for InterfaceCounters {
    type Output = InterfaceCounters;

    fn add(self, other: InterfaceCounters) -> InterfaceCounters {
        InterfaceCounters {
            receive_bytes: self.receive_bytes + other.receive_bytes,
            receive_packets: self.receive_packets + other.receive_packets,
            send_bytes: self.send_bytes + other.send_bytes,
            send_packets: self.send_packets + other.send_packets,
            errors: self.errors + other.errors,
            drops: self.drops + other.drops,
        }
    }
}

impl Snapshot {
    /// Reads the counters of this host, in a fraction of a millisecond.
    pub fn take() -> Snapshot {
        let mut snapshot = Snapshot::of(&KernelFiles::system());
        snapshot.softirq_thread_ns = softirq_threads::ran_ns();
        snapshot
    }

    /// The same with the network counters of the calling thread's network namespace, which may
    /// differ from the process's.
    pub fn take_in_thread() -> Snapshot {
        let mut snapshot = Snapshot::within(&KernelFiles::system(), "proc/thread-self/net");
        snapshot.softirq_thread_ns = softirq_threads::ran_ns();
        snapshot
    }

    /// One snapshot of two hosts on this machine, taken one after the other: the sum of their
    /// network counters. Interfaces of equal name are added.
    #[must_use]
    pub fn merged_with(mut self, other: &Snapshot) -> Snapshot {
        self.counters = self.counters + other.counters;
        for (name, theirs) in &other.interfaces {
            let ours = self.interfaces.entry(name.clone()).or_default();
            *ours = *ours + *theirs;
        }
        self
    }

    /// The counters in a tree of files.
    pub(crate) fn of(files: &KernelFiles) -> Snapshot {
        Snapshot::within(files, "proc/net")
    }

    /// The same, with the network counters in folder `net`.
    fn within(files: &KernelFiles, net: &str) -> Snapshot {
        let stat = files.text("proc/stat").unwrap_or_default();
        let load = files.line("proc/loadavg").unwrap_or_default();
        let load1 = load.split_whitespace().next();
        let interfaces = files.text(&format!("{net}/dev")).unwrap_or_default();
        Snapshot {
            at: Instant::now(),
            cpus: stat.lines().filter_map(ticks_of_line).collect(),
            softirq_thread_ns: None,
            load1: load1.and_then(|word| word.parse().ok()).unwrap_or(0.0),
            counters: read_counters(files, net),
            interfaces: interfaces.lines().filter_map(interface_of_line).collect(),
        }
    }

    /// Processors in use.
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }
}

/// A line `cpu3 user nice system idle iowait irq softirq steal ...` of /proc/stat.
fn ticks_of_line(line: &str) -> Option<(u32, CpuTicks)> {
    let mut words = line.strip_prefix("cpu")?.split_whitespace();
    let cpu = line["cpu".len()..].starts_with(|c: char| c.is_ascii_digit());
    let number = cpu.then(|| words.next())??.parse().ok()?;
    let mut fields = words.map(|word| word.parse::<u64>().unwrap_or(0));
    let mut next = || fields.next().unwrap_or(0);
    let (user, nice, system, idle, wait) = (next(), next(), next(), next(), next());
    let ticks = CpuTicks {
        user: user + nice,
        system,
        idle: idle + wait,
        irq: next(),
        softirq: next(),
        steal: next(),
    };
    Some((number, ticks))
}

/// A line `name: bytes packets errs drop ... | bytes packets errs drop ...` of /proc/net/dev.
fn interface_of_line(line: &str) -> Option<(String, InterfaceCounters)> {
    let (name, rest) = line.split_once(':')?;
    let fields: Vec<u64> = rest
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let at = |index: usize| fields.get(index).copied().unwrap_or(0);
    let interface = InterfaceCounters {
        receive_bytes: at(0),
        receive_packets: at(1),
        send_bytes: at(8),
        send_packets: at(9),
        errors: at(2) + at(10),
        drops: at(3) + at(11),
    };
    (fields.len() >= 12).then(|| (name.trim().to_owned(), interface))
}

fn read_counters(files: &KernelFiles, net: &str) -> NetworkCounters {
    let text = |name: &str| files.text(&format!("{net}/{name}")).unwrap_or_default();
    let snmp = table(&text("snmp"));
    let netstat = table(&text("netstat"));
    let v6 = pairs(&text("snmp6"));
    let softnet = text("softnet_stat");
    let get = |map: &BTreeMap<String, u64>, key: &str| map.get(key).copied().unwrap_or(0);
    let udp = |name: &str| {
        let v4 = get(&snmp, &format!("Udp.{name}")) + get(&snmp, &format!("UdpLite.{name}"));
        v4 + get(&v6, &format!("Udp6{name}")) + get(&v6, &format!("UdpLite6{name}"))
    };
    NetworkCounters {
        udp_receive_buffer_drops: udp("RcvbufErrors"),
        udp_send_buffer_drops: udp("SndbufErrors"),
        udp_receive_errors: udp("InErrors"),
        tcp_segments_sent: get(&snmp, "Tcp.OutSegs"),
        tcp_retransmissions: get(&snmp, "Tcp.RetransSegs"),
        tcp_timeouts: get(&netstat, "TcpExt.TCPTimeouts"),
        tcp_listen_drops: get(&netstat, "TcpExt.ListenDrops"),
        softnet_drops: softnet_column(&softnet, 1),
        softnet_squeezes: softnet_column(&softnet, 2),
    }
}

/// Pairs of lines, names above values, each after the name of the group.
fn table(text: &str) -> BTreeMap<String, u64> {
    let mut map = BTreeMap::new();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let group = names.split(':').next().unwrap_or_default();
        let cells = names.split_whitespace().zip(values.split_whitespace());
        for (name, value) in cells.skip(1) {
            // Some values are -1 for "no limit"; none of those is a count.
            if let Ok(value) = value.parse() {
                map.insert(format!("{group}.{name}"), value);
            }
        }
    }
    map
}

/// Lines of a name and a value.
fn pairs(text: &str) -> BTreeMap<String, u64> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// The sum over processors of a hexadecimal column.
fn softnet_column(text: &str, column: usize) -> u64 {
    let value = |line: &str| u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok();
    text.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_sum_line_is_skipped() {
        assert_eq!(ticks_of_line("cpu  1 2 3 4 5 6 7 8 9 10"), None);
        assert_eq!(ticks_of_line("intr 1 2"), None);
        let (cpu, ticks) = ticks_of_line("cpu11 1 2 3 4 5 6 7 8 9 10").expect("a line");
        assert_eq!((cpu, ticks.user, ticks.system, ticks.idle), (11, 3, 3, 9));
        assert_eq!((ticks.irq, ticks.softirq, ticks.steal), (6, 7, 8));
    }

    #[test]
    fn net_dev_headings_are_skipped() {
        let heading = " face |bytes    packets errs drop fifo frame compressed multicast|bytes";
        assert_eq!(interface_of_line(heading), None);
        let line = "    lo:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        let (name, counts) = interface_of_line(line).expect("an interface");
        assert_eq!(name, "lo");
        assert_eq!((counts.receive_bytes, counts.receive_packets), (1, 2));
        assert_eq!((counts.send_bytes, counts.send_packets), (9, 10));
        assert_eq!((counts.errors, counts.drops), (3 + 11, 4 + 12));
    }

    #[test]
    fn snmp_table_pairs_names_with_values() {
        let map = table("Tcp: MaxConn OutSegs RetransSegs\nTcp: -1 10 2\n");
        assert_eq!(map.get("Tcp.RetransSegs"), Some(&2));
        assert_eq!(map.get("Tcp.MaxConn"), None);
    }

    #[test]
    fn softnet_is_hexadecimal_and_summed() {
        assert_eq!(softnet_column("0a 10 01\n0b 02 01\n", 1), 0x12);
    }

    #[test]
    fn missing_files_give_zero_counters() {
        let snapshot = Snapshot::of(&KernelFiles::below(std::path::Path::new("/nowhere at all")));
        assert_eq!(snapshot.cpus(), 0);
        assert_eq!(snapshot.counters, NetworkCounters::default());
    }
}
