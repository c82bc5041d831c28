//! Findings from a path report: what matters for a race, and what to do.

use crate::path_probe::{PathDirection, PathReport};
use results::{Finding, Severity};

/// MTU of Ethernet, octets; a smaller one is reported.
const ETHERNET_MTU: u32 = 1500;

/// CPU share above which the host, not the path, limits the rate.
const BUSY_PART: f64 = 0.7;

/// Queueing delay that is reported: the RTT under load exceeds the idle RTT by this, and is this
/// many times as long.
const QUEUE_DELAY_NS: u64 = 2_000_000;
const QUEUE_TIMES: u64 = 2;

/// Retransmitted packets in a thousand that are reported.
const RETRANSMITTED_PER_1000: u64 = 1;

/// Ratio of the directions' rates that is reported.
const ASYMMETRY_RATIO: f64 = 2.0;

/// Ratio of initial to final rate that is reported as a burst.
const BURST_RATIO: f64 = 1.5;

/// Part of an agent's rate cap that counts as reaching it.
const CAP_PART: f64 = 0.85;

/// Offloads whose absence affects results.
const EXPECTED_OFFLOADS: [&str; 4] = [
    "TCP segmentation",
    "generic segmentation",
    "generic receive offload",
    "receive checksums",
];

/// The findings, worst first.
pub(super) fn diagnose(report: &PathReport) -> Vec<Finding> {
    let mut all = vec![check_clocks(report)];
    all.extend(check_mtu(report));
    for direction in DirectionCheck::both(report) {
        all.extend(direction.check_path_mtu());
        all.extend(direction.check_offloads());
        all.push(direction.check_rate(report));
        all.extend(direction.check_burst());
        all.extend(direction.check_queue(report));
        all.extend(direction.check_losses());
    }
    all.extend(check_asymmetry(report));
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}

fn finding(severity: Severity, what: String, effect: &str, remedy: &str) -> Finding {
    Finding {
        severity,
        what,
        effect: effect.into(),
        remedy: remedy.into(),
    }
}

/// `12.3 us`, `4.56 ms`, `1.20 s`.
fn time_text(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        0.0..1e6 => format!("{:.1} us", ns / 1e3),
        1e6..1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// `0.53 Mbit/s`, `94.2 Mbit/s`, `9410 Mbit/s`.
fn rate_text(mbit_per_s: f64) -> String {
    let digits = match mbit_per_s {
        0.0..1.0 => 2,
        1.0..1000.0 => 1,
        _ => 0,
    };
    format!("{mbit_per_s:.digits$} Mbit/s")
}

fn check_clocks(report: &PathReport) -> Finding {
    let what = format!(
        "the clocks of the two hosts are known within {}, by round trips of {} at best; one-direction \
         delays below {} are left out of results",
        time_text(report.clock_bound_ns),
        time_text(report.round_trip_ns),
        time_text(report.clock_bound_ns.saturating_mul(2)),
    );
    finding(Severity::Good, what, "", "")
}

/// Compares the MTUs of the directions.
fn check_mtu(report: &PathReport) -> Option<Finding> {
    let (there, back) = (&report.there, &report.back);
    if there.mtu == 0 || back.mtu == 0 {
        return None;
    }
    if there.mtu != back.mtu {
        let what = format!(
            "packets of {} B may go to {} and of {} B come back",
            there.mtu, report.host, back.mtu
        );
        return Some(finding(
            Severity::Warning,
            what,
            "the two directions differ in packets a message, and datagrams of the larger size may \
             be lost or fragmented",
            "give the interfaces and routes of both hosts one MTU",
        ));
    }
    let what = format!("packets of {} B pass in both directions", there.mtu);
    if there.mtu >= ETHERNET_MTU {
        return Some(finding(Severity::Good, what, "", ""));
    }
    Some(finding(
        Severity::Note,
        format!("{what}, fewer octets than Ethernet's {ETHERNET_MTU}"),
        "messages take more packets than on Ethernet; a tunnel or a link of another kind is \
         on the path, or an interface has a smaller MTU",
        "choose --sizes with this limit in mind",
    ))
}

fn check_asymmetry(report: &PathReport) -> Option<Finding> {
    let (there, back) = (report.there.tcp.mbit_per_s, report.back.tcp.mbit_per_s);
    let (least, most) = (there.min(back), there.max(back));
    if most < least * ASYMMETRY_RATIO {
        return None;
    }
    Some(finding(
        Severity::Warning,
        format!(
            "the directions differ: {} to {}, {} back",
            rate_text(there),
            report.host,
            rate_text(back)
        ),
        "results of one direction do not hold for the other; ACKs in the slow one may limit a \
         transport",
        "race both, with and without --reverse",
    ))
}

/// One direction and its texts.
struct DirectionCheck<'a> {
    path: &'a PathDirection,
    /// Host of the outgoing interface: `here` or `on lab`.
    owner: String,
    /// `from here to lab`.
    label: String,
    /// Rate cap of the sending agent, Mbit/s.
    cap_mbit: Option<f64>,
}

impl<'a> DirectionCheck<'a> {
    fn both(report: &'a PathReport) -> [DirectionCheck<'a>; 2] {
        let host = &report.host;
        [
            DirectionCheck {
                path: &report.there,
                owner: "here".into(),
                label: format!("from here to {host}"),
                cap_mbit: None,
            },
            DirectionCheck {
                path: &report.back,
                owner: format!("on {host}"),
                label: format!("from {host} to here"),
                cap_mbit: report.agent_rate_bps.map(|bps| bps as f64 * 1e-6),
            },
        ]
    }

    /// The path MTU is below the MTU of the first interface.
    fn check_path_mtu(&self) -> Option<Finding> {
        let PathDirection {
            mtu,
            interface_mtu,
            interface,
            ..
        } = self.path;
        // IP packets are limited to 65,535 octets, whatever the interface takes.
        if *mtu == 0 || *mtu >= (*interface_mtu).min(65_535) {
            return None;
        }
        Some(finding(
            Severity::Warning,
            format!(
                "{}: packets of {mtu} B at most, although {interface} takes {interface_mtu} B",
                self.label
            ),
            "a link on the path has a smaller MTU: larger datagrams are fragmented or lost, and TCP \
             needs path MTU discovery",
            "give that link the same MTU, or this interface the smaller one",
        ))
    }

    fn check_offloads(&self) -> Option<Finding> {
        let missing: Vec<&str> = EXPECTED_OFFLOADS
            .into_iter()
            .filter(|name| self.path.offloads.get(*name) == Some(&false))
            .collect();
        let interface = &self.path.interface;
        if missing.is_empty() {
            return None;
        }
        Some(finding(
            Severity::Note,
            format!(
                "{interface} {} does without {}",
                self.owner,
                missing.join(", ")
            ),
            "the CPU does that work for each packet; transports that send many a call gain less",
            &format!("as root: ethtool -k {interface}, and -K to switch it on"),
        ))
    }

    /// The rate TCP reached, and what limited it.
    fn check_rate(&self, report: &PathReport) -> Finding {
        let tcp = &self.path.tcp;
        let got = format!(
            "{}: {} in {:.1} s of TCP",
            self.label,
            rate_text(tcp.mbit_per_s),
            tcp.span_s
        );
        if let Some(cap) = self.cap_mbit.filter(|cap| tcp.mbit_per_s > cap * CAP_PART) {
            return finding(
                Severity::Note,
                format!("{got}, which the agent allows ({})", rate_text(cap)),
                "with --reverse the agent's cap is measured and not the transport",
                "raise --max-rate there, or race without --reverse",
            );
        }
        if tcp.busy.iter().any(|&busy| busy > BUSY_PART) {
            return finding(
                Severity::Good,
                format!("{got}; a CPU is the bottleneck, not the path"),
                "",
                "",
            );
        }
        if self.is_queued(report) || self.is_lossy() {
            return finding(
                Severity::Note,
                format!("{got}, with both CPUs mostly idle: a link on the path is the bottleneck"),
                "transports that could go faster come out alike in throughput; what differs is how \
                 they share that link and what they cost",
                "compare delays and processor time too, or offer less than this rate",
            );
        }
        finding(
            Severity::Good,
            format!("{got}; no bottleneck on the path was seen"),
            "",
            "",
        )
    }

    fn check_burst(&self) -> Option<Finding> {
        let tcp = &self.path.tcp;
        let (first, last) = (tcp.first_mbit_per_s, tcp.last_mbit_per_s);
        if last <= 0.0 || first < last * BURST_RATIO {
            return None;
        }
        Some(finding(
            Severity::Warning,
            format!(
                "{}: {} in the first fifth and {} in the last half",
                self.label,
                rate_text(first),
                rate_text(last)
            ),
            "a rate limiter on the path lets an initial burst pass; short trials measure the burst",
            &format!("give --trial {:.0}s or more", (tcp.span_s * 5.0).max(1.0)),
        ))
    }

    fn is_queued(&self, report: &PathReport) -> bool {
        let idle_ns = report.round_trip_ns;
        let loaded_ns = self.path.tcp.round_trip_ns;
        loaded_ns > idle_ns.saturating_add(QUEUE_DELAY_NS)
            && loaded_ns > idle_ns.saturating_mul(QUEUE_TIMES)
    }

    fn check_queue(&self, report: &PathReport) -> Option<Finding> {
        // On a busy CPU the ACKs wait for the CPU, not in a queue on the path.
        if !self.is_queued(report) || self.path.tcp.busy.iter().any(|&busy| busy > BUSY_PART) {
            return None;
        }
        Some(finding(
            Severity::Note,
            format!(
                "{}: the RTT is {} while TCP sends, {} without traffic",
                self.label,
                time_text(self.path.tcp.round_trip_ns),
                time_text(report.round_trip_ns)
            ),
            "a queue on the path fills; traffic beside a bulk transfer has that queue's delay",
            "measure delays by themselves, and offered loads below the rate of the link",
        ))
    }

    fn is_lossy(&self) -> bool {
        let tcp = &self.path.tcp;
        tcp.retransmissions.saturating_mul(1000)
            > tcp.packets.saturating_mul(RETRANSMITTED_PER_1000)
    }

    fn check_losses(&self) -> Option<Finding> {
        let tcp = &self.path.tcp;
        self.is_lossy().then(|| {
            finding(
                Severity::Note,
                format!(
                    "{}: {} of {} packets were retransmitted",
                    self.label, tcp.retransmissions, tcp.packets
                ),
                "packets are lost or reordered on the path; throughput depends on how a transport \
                 reacts",
                "",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_probe::TcpSample;
    use results::Machine;
    use std::net::{IpAddr, Ipv4Addr};

    /// A path without anything to report.
    fn good_path() -> PathReport {
        let direction = PathDirection {
            mtu: 1500,
            interface: "eth0".into(),
            interface_mtu: 1500,
            offloads: EXPECTED_OFFLOADS
                .iter()
                .map(|name| ((*name).into(), true))
                .collect(),
            tcp: TcpSample {
                span_s: 2.0,
                mbit_per_s: 940.0,
                first_mbit_per_s: 930.0,
                last_mbit_per_s: 941.0,
                packets: 160_000,
                retransmissions: 3,
                segment_max: 1448,
                busy: [0.2, 0.3],
                round_trip_ns: 300_000,
            },
        };
        let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
        PathReport {
            host: "lab".into(),
            address,
            own_address: address,
            round_trip_ns: 200_000,
            clock_offset_ns: 5,
            clock_bound_ns: 101_000,
            agent_rate_bps: None,
            there: direction.clone(),
            back: direction,
            findings: Vec::new(),
            machine: Machine::default(),
        }
    }

    #[track_caller]
    fn assert_finding(change: impl Fn(&mut PathReport), severity: Severity, words: &str) {
        let mut report = good_path();
        change(&mut report);
        let found = diagnose(&report);
        let matches = |one: &Finding| one.severity == severity && one.what.contains(words);
        assert!(found.iter().any(matches), "{words}: {found:#?}");
        assert!(found.is_sorted_by_key(|one| std::cmp::Reverse(one.severity)));
    }

    #[test]
    fn good_path_has_only_good_findings() {
        let found = diagnose(&good_path());
        let is_good = |one: &Finding| one.severity == Severity::Good;
        assert!(found.iter().all(is_good), "{found:#?}");
        let what: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(
            what[0],
            "the clocks of the two hosts are known within 101.0 us, by round trips of 200.0 us at \
             best; one-direction delays below 202.0 us are left out of results"
        );
        assert_eq!(what[1], "packets of 1500 B pass in both directions");
        assert_eq!(
            what[2],
            "from here to lab: 940.0 Mbit/s in 2.0 s of TCP; no bottleneck on the path was seen"
        );
        assert_eq!(what.len(), 4);
    }

    #[test]
    fn mtu_findings_reported() {
        assert_finding(
            |report| report.back.mtu = 1280,
            Severity::Warning,
            "packets of 1500 B may go to lab and of 1280 B come back",
        );
        assert_finding(
            |report| (report.there.mtu, report.back.mtu) = (1400, 1400),
            Severity::Warning,
            "from lab to here: packets of 1400 B at most, although eth0 takes 1500 B",
        );
        let tunnel = |report: &mut PathReport| {
            for direction in [&mut report.there, &mut report.back] {
                (direction.mtu, direction.interface_mtu) = (1300, 1300);
            }
        };
        assert_finding(tunnel, Severity::Note, "1300 B pass in both directions");
    }

    #[test]
    fn rate_findings_reported() {
        let queued = |report: &mut PathReport| report.there.tcp.round_trip_ns = 30_000_000;
        assert_finding(
            queued,
            Severity::Note,
            "a link on the path is the bottleneck",
        );
        assert_finding(queued, Severity::Note, "the RTT is 30.00 ms");
        assert_finding(
            |report| report.back.tcp.retransmissions = 1000,
            Severity::Note,
            "from lab to here: 1000 of 160000 packets were retransmitted",
        );
        assert_finding(
            |report| report.back.tcp.busy = [0.1, 0.95],
            Severity::Good,
            "a CPU is the bottleneck",
        );
        assert_finding(
            |report| report.agent_rate_bps = Some(1_000_000_000),
            Severity::Note,
            "from lab to here: 940.0 Mbit/s in 2.0 s of TCP, which the agent allows (1000 Mbit/s)",
        );
        assert_finding(
            |report| report.there.tcp.first_mbit_per_s = 2000.0,
            Severity::Warning,
            "from here to lab: 2000 Mbit/s in the first fifth and 941.0 Mbit/s in the last half",
        );
        assert_finding(
            |report| report.back.tcp.mbit_per_s = 0.5,
            Severity::Warning,
            "the directions differ: 940.0 Mbit/s to lab, 0.50 Mbit/s back",
        );
    }

    #[test]
    fn disabled_offload_reported() {
        assert_finding(
            |report| {
                report
                    .back
                    .offloads
                    .insert("TCP segmentation".into(), false);
            },
            Severity::Note,
            "eth0 on lab does without TCP segmentation",
        );
    }
}
