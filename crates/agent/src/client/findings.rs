//! What lies between two hosts, judged: what of it matters for a race, and what to do.

use super::survey::{Survey, Way};
use results::{Finding, Severity};

/// The largest packet of Ethernet, octets; what is smaller is worth a word.
const ETHERNET: u32 = 1500;

/// A processor that is used less than this leaves room.
const ROOM: f64 = 0.7;

/// The queue on the way that is worth a word: a round trip longer by this, and that many times as long
/// as without traffic.
const QUEUE_NS: u64 = 2_000_000;
const QUEUE_TIMES: u64 = 2;

/// Packets of a thousand sent again that are worth a word.
const LOST_PER_1000: u64 = 1;

/// A direction that is this many times as fast as the other one.
const UNEQUAL: f64 = 2.0;

/// A beginning that is this many times as fast as the rest.
const BURST: f64 = 1.5;

/// The part of an agent's cap that counts as all of it.
const CAP_PART: f64 = 0.85;

/// Offloads whose absence shows in a race.
const WANTED: [&str; 4] = [
    "TCP segmentation",
    "generic segmentation",
    "generic receive offload",
    "receive checksums",
];

/// The findings, worst first.
pub(super) fn of(survey: &Survey) -> Vec<Finding> {
    let mut all = vec![clocks(survey)];
    all.extend(packets(survey));
    for direction in Direction::both(survey) {
        all.extend(direction.smaller_on_the_way());
        all.extend(direction.offloads());
        all.push(direction.pace(survey));
        all.extend(direction.burst());
        all.extend(direction.queue(survey));
        all.extend(direction.losses());
    }
    all.extend(unequal(survey));
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
fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        0.0..1e6 => format!("{:.1} us", ns / 1e3),
        1e6..1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// `0.53 Mbit/s`, `94.2 Mbit/s`, `9410 Mbit/s`.
fn pace(mbit_per_s: f64) -> String {
    let digits = match mbit_per_s {
        0.0..1.0 => 2,
        1.0..1000.0 => 1,
        _ => 0,
    };
    format!("{mbit_per_s:.digits$} Mbit/s")
}

fn clocks(survey: &Survey) -> Finding {
    let what = format!(
        "the clocks of the two hosts are known within {}, by round trips of {} at best; one-way \
         delays below {} are left out of results",
        time(survey.clock_bound_ns),
        time(survey.round_trip_ns),
        time(survey.clock_bound_ns.saturating_mul(2)),
    );
    finding(Severity::Good, what, "", "")
}

/// The largest packet, both ways together.
fn packets(survey: &Survey) -> Option<Finding> {
    let (there, back) = (&survey.there, &survey.back);
    if there.mtu == 0 || back.mtu == 0 {
        return None;
    }
    if there.mtu != back.mtu {
        let what = format!(
            "packets of {} B may go to {} and of {} B come back",
            there.mtu, survey.host, back.mtu
        );
        return Some(finding(
            Severity::Warning,
            what,
            "the two directions differ in packets a message, and datagrams of the larger size may \
             be lost or cut up",
            "give the interfaces and routes of both hosts one MTU",
        ));
    }
    let what = format!("packets of {} B pass in both directions", there.mtu);
    if there.mtu >= ETHERNET {
        return Some(finding(Severity::Good, what, "", ""));
    }
    Some(finding(
        Severity::Note,
        format!("{what}, fewer octets than Ethernet's {ETHERNET}"),
        "messages take more packets than on a plain network; a tunnel or a link of another kind lies \
         on the way, or an interface is set so",
        "choose --sizes with this limit in mind",
    ))
}

fn unequal(survey: &Survey) -> Option<Finding> {
    let (there, back) = (survey.there.tcp.mbit_per_s, survey.back.tcp.mbit_per_s);
    let (least, most) = (there.min(back), there.max(back));
    if most < least * UNEQUAL {
        return None;
    }
    Some(finding(
        Severity::Warning,
        format!(
            "the directions differ: {} to {}, {} back",
            pace(there),
            survey.host,
            pace(back)
        ),
        "what is true of one direction is not of the other; acknowledgements may be what a transport \
         waits for",
        "race both, with and without --reverse",
    ))
}

/// One direction with its words.
struct Direction<'a> {
    way: &'a Way,
    /// Whose interface it leaves by.
    owner: String,
    /// `from here to lab`.
    words: String,
    /// What the sending agent may send, Mbit/s.
    cap_mbit: Option<f64>,
}

impl<'a> Direction<'a> {
    fn both(survey: &'a Survey) -> [Direction<'a>; 2] {
        let host = &survey.host;
        [
            Direction {
                way: &survey.there,
                owner: "here".into(),
                words: format!("from here to {host}"),
                cap_mbit: None,
            },
            Direction {
                way: &survey.back,
                owner: format!("on {host}"),
                words: format!("from {host} to here"),
                cap_mbit: survey.agent_rate_bps.map(|bps| bps as f64 * 1e-6),
            },
        ]
    }

    /// The way takes less than the interface at its beginning.
    fn smaller_on_the_way(&self) -> Option<Finding> {
        let Way {
            mtu,
            interface_mtu,
            interface,
            ..
        } = self.way;
        // IP's packets end at 65,535 octets, whatever the interface takes.
        if *mtu == 0 || *mtu >= (*interface_mtu).min(65_535) {
            return None;
        }
        Some(finding(
            Severity::Warning,
            format!(
                "{}: packets of {mtu} B at most, although {interface} takes {interface_mtu} B",
                self.words
            ),
            "a link on the way takes less: larger datagrams are cut up or lost, and TCP finds out by \
             losing some",
            "give that link the same MTU, or this interface the smaller one",
        ))
    }

    fn offloads(&self) -> Option<Finding> {
        let missing: Vec<&str> = WANTED
            .into_iter()
            .filter(|name| self.way.offloads.get(*name) == Some(&false))
            .collect();
        let interface = &self.way.interface;
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
            "the processor does that work for each packet; transports that send many a call gain less",
            &format!("as root: ethtool -k {interface}, and -K to switch it on"),
        ))
    }

    /// How fast TCP went and what set its pace.
    fn pace(&self, survey: &Survey) -> Finding {
        let tcp = &self.way.tcp;
        let got = format!(
            "{}: {} in {:.1} s of TCP",
            self.words,
            pace(tcp.mbit_per_s),
            tcp.span_s
        );
        if let Some(cap) = self.cap_mbit.filter(|cap| tcp.mbit_per_s > cap * CAP_PART) {
            return finding(
                Severity::Note,
                format!("{got}, which the agent allows ({})", pace(cap)),
                "with --reverse the agent's cap is measured and not the transport",
                "raise --max-rate there, or race without --reverse",
            );
        }
        if tcp.busy.iter().any(|&busy| busy > ROOM) {
            return finding(
                Severity::Good,
                format!("{got}; a processor is busy with it, nothing in between is slower"),
                "",
                "",
            );
        }
        if self.is_queued(survey) || self.is_lossy() {
            return finding(
                Severity::Note,
                format!(
                    "{got}, with both processors idle most of the time: a link in between sets the pace"
                ),
                "transports that could go faster come out alike in throughput; what differs is how \
                 they share that link and what they cost",
                "compare delays and processor time too, or offer less than this rate",
            );
        }
        finding(
            Severity::Good,
            format!("{got}; no limit in between was seen"),
            "",
            "",
        )
    }

    fn burst(&self) -> Option<Finding> {
        let tcp = &self.way.tcp;
        let (first, last) = (tcp.first_mbit_per_s, tcp.last_mbit_per_s);
        if last <= 0.0 || first < last * BURST {
            return None;
        }
        Some(finding(
            Severity::Warning,
            format!(
                "{}: {} in the first fifth and {} in the last half",
                self.words,
                pace(first),
                pace(last)
            ),
            "a rate limit in between lets a burst pass first; short trials measure the burst",
            &format!("give --trial {:.0}s or more", (tcp.span_s * 5.0).max(1.0)),
        ))
    }

    fn is_queued(&self, survey: &Survey) -> bool {
        let idle_ns = survey.round_trip_ns;
        let loaded_ns = self.way.tcp.round_trip_ns;
        loaded_ns > idle_ns.saturating_add(QUEUE_NS)
            && loaded_ns > idle_ns.saturating_mul(QUEUE_TIMES)
    }

    fn queue(&self, survey: &Survey) -> Option<Finding> {
        // With a busy processor the answer may wait for that.
        if !self.is_queued(survey) || self.way.tcp.busy.iter().any(|&busy| busy > ROOM) {
            return None;
        }
        Some(finding(
            Severity::Note,
            format!(
                "{}: round trips take {} while TCP sends, {} without traffic",
                self.words,
                time(self.way.tcp.round_trip_ns),
                time(survey.round_trip_ns)
            ),
            "a queue on the way fills; the delay of whatever goes beside a bulk transfer is that \
             queue's",
            "measure delays by themselves, and offered loads below the rate of the link",
        ))
    }

    fn is_lossy(&self) -> bool {
        let tcp = &self.way.tcp;
        tcp.retransmissions.saturating_mul(1000) > tcp.packets.saturating_mul(LOST_PER_1000)
    }

    fn losses(&self) -> Option<Finding> {
        let tcp = &self.way.tcp;
        self.is_lossy().then(|| {
            finding(
                Severity::Note,
                format!(
                    "{}: {} of {} packets were sent again",
                    self.words, tcp.retransmissions, tcp.packets
                ),
                "packets are lost or come out of order on the way; throughput is decided by how a \
                 transport bears that",
                "",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::survey::Tcp;
    use super::*;
    use results::Machine;
    use std::net::{IpAddr, Ipv4Addr};

    /// Two hosts with nothing odd between them.
    fn plain() -> Survey {
        let way = Way {
            mtu: 1500,
            interface: "eth0".into(),
            interface_mtu: 1500,
            offloads: WANTED.iter().map(|name| ((*name).into(), true)).collect(),
            tcp: Tcp {
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
        Survey {
            host: "lab".into(),
            address,
            own_address: address,
            round_trip_ns: 200_000,
            clock_offset_ns: 5,
            clock_bound_ns: 101_000,
            agent_rate_bps: None,
            there: way.clone(),
            back: way,
            findings: Vec::new(),
            machine: Machine::default(),
        }
    }

    #[track_caller]
    fn says(change: impl Fn(&mut Survey), severity: Severity, words: &str) {
        let mut survey = plain();
        change(&mut survey);
        let found = of(&survey);
        let told = |one: &Finding| one.severity == severity && one.what.contains(words);
        assert!(found.iter().any(told), "{words}: {found:#?}");
        assert!(found.is_sorted_by_key(|one| std::cmp::Reverse(one.severity)));
    }

    #[test]
    fn a_plain_way_is_good() {
        let found = of(&plain());
        let is_good = |one: &Finding| one.severity == Severity::Good;
        assert!(found.iter().all(is_good), "{found:#?}");
        let what: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(
            what[0],
            "the clocks of the two hosts are known within 101.0 us, by round trips of 200.0 us at \
             best; one-way delays below 202.0 us are left out of results"
        );
        assert_eq!(what[1], "packets of 1500 B pass in both directions");
        assert_eq!(
            what[2],
            "from here to lab: 940.0 Mbit/s in 2.0 s of TCP; no limit in between was seen"
        );
        assert_eq!(what.len(), 4);
    }

    #[test]
    fn packets_that_are_too_large_for_the_way_are_told() {
        says(
            |survey| survey.back.mtu = 1280,
            Severity::Warning,
            "packets of 1500 B may go to lab and of 1280 B come back",
        );
        says(
            |survey| (survey.there.mtu, survey.back.mtu) = (1400, 1400),
            Severity::Warning,
            "from lab to here: packets of 1400 B at most, although eth0 takes 1500 B",
        );
        let tunnel = |survey: &mut Survey| {
            for way in [&mut survey.there, &mut survey.back] {
                (way.mtu, way.interface_mtu) = (1300, 1300);
            }
        };
        says(tunnel, Severity::Note, "1300 B pass in both directions");
    }

    #[test]
    fn what_sets_the_pace_is_told() {
        let queued = |survey: &mut Survey| survey.there.tcp.round_trip_ns = 30_000_000;
        says(queued, Severity::Note, "a link in between sets the pace");
        says(queued, Severity::Note, "round trips take 30.00 ms");
        says(
            |survey| survey.back.tcp.retransmissions = 1000,
            Severity::Note,
            "from lab to here: 1000 of 160000 packets were sent again",
        );
        says(
            |survey| survey.back.tcp.busy = [0.1, 0.95],
            Severity::Good,
            "a processor is busy with it",
        );
        says(
            |survey| survey.agent_rate_bps = Some(1_000_000_000),
            Severity::Note,
            "from lab to here: 940.0 Mbit/s in 2.0 s of TCP, which the agent allows (1000 Mbit/s)",
        );
        says(
            |survey| survey.there.tcp.first_mbit_per_s = 2000.0,
            Severity::Warning,
            "from here to lab: 2000 Mbit/s in the first fifth and 941.0 Mbit/s in the last half",
        );
        says(
            |survey| survey.back.tcp.mbit_per_s = 0.5,
            Severity::Warning,
            "the directions differ: 940.0 Mbit/s to lab, 0.50 Mbit/s back",
        );
    }

    #[test]
    fn offloads_that_are_off_are_told() {
        says(
            |survey| {
                survey
                    .back
                    .offloads
                    .insert("TCP segmentation".into(), false);
            },
            Severity::Note,
            "eth0 on lab does without TCP segmentation",
        );
    }
}
