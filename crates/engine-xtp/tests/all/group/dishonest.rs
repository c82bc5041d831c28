//! Members that lie about their losses, and what they cost the others (0018, Repairs).

use super::network::GroupNetwork;
use super::plan::{MS, Station};
use engine::CloseReason;
use engine_xtp::group::{Config, MemberState};
use engine_xtp::pdu::{Body, CommonControl, Options, Packet, Spans};
use std::iter::once;

/// Octets of a packet, and its user bytes.
const PACKET_LEN: usize = 1000;
const PAYLOAD: u64 = 968;

/// How a member lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It never received anything.
    AllLost,
    /// All that arrived since its last report is lost.
    LatestLost,
    /// The first packet since its last report is lost, three times.
    FirstLostThrice,
    /// One packet in ten is lost.
    TenthLost,
    /// One packet in seventeen is lost: as much as a member may lose.
    SeventeenthLost,
}

/// Falsifies the control packets of a member.
pub struct Dishonesty {
    lie: Option<Lie>,
    /// What it reported to have received, and how often.
    reported: u64,
    repeated: u32,
}

impl Dishonesty {
    pub fn new(lie: Option<Lie>) -> Dishonesty {
        Dishonesty {
            lie,
            reported: 0,
            repeated: 0,
        }
    }

    /// The packet that it sends instead of `packet`.
    pub fn falsify(&mut self, packet: Vec<u8>) -> Vec<u8> {
        let Some(lie) = self.lie else {
            return packet;
        };
        let parsed = Packet::parse(&packet).expect("an engine sends good packets");
        let (Body::Cntl(common) | Body::Ecntl(common, _)) = parsed.body else {
            return packet;
        };
        if parsed.header.options.has(Options::END) {
            return packet;
        }
        let (rseq, spans) = self.report(lie, common.rseq);
        let common = CommonControl { rseq, ..common };
        let octets: Vec<u8> = spans
            .iter()
            .flat_map(|span| [span.start.to_be_bytes(), span.end.to_be_bytes()])
            .flatten()
            .collect();
        let mut header = parsed.header;
        if rseq < common_rseq(&parsed.body) {
            header.options = header.options.with(Options::RCLOSE, false);
        }
        let body = match Spans::new(&octets) {
            Some(spans) if !spans.is_empty() => Body::Ecntl(common, spans),
            _ => Body::Cntl(common),
        };
        header.format = body.format();
        let mut out = Vec::new();
        Packet { header, body }.emit_with_checksum(&mut out);
        out
    }

    /// `rseq` and spans of a report, where all below `received` is there.
    fn report(&mut self, lie: Lie, received: u64) -> (u64, Vec<std::ops::Range<u64>>) {
        let before = self.reported;
        match lie {
            Lie::AllLost => (0, Vec::new()),
            Lie::LatestLost => {
                self.reported = received;
                (before, Vec::new())
            }
            Lie::FirstLostThrice if self.repeated < 3 && received > before + PAYLOAD => {
                self.repeated += 1;
                (before, once(before + PAYLOAD..received).collect())
            }
            Lie::FirstLostThrice => {
                self.repeated = 0;
                self.reported = received;
                (received, Vec::new())
            }
            Lie::TenthLost => self.report_holes(received, 10),
            Lie::SeventeenthLost => self.report_holes(received, 17),
        }
    }

    /// A report in which one packet in `of` since the last one is lost.
    fn report_holes(&mut self, received: u64, of: u64) -> (u64, Vec<std::ops::Range<u64>>) {
        let packets = self.reported.div_ceil(PAYLOAD)..received / PAYLOAD;
        let holes: Vec<u64> = packets.filter(|packet| packet % of == 0).collect();
        self.reported = received;
        let Some(&first) = holes.first() else {
            return (received, Vec::new());
        };
        let behind = holes.iter().map(|hole| (hole + 1) * PAYLOAD);
        let until = holes[1..]
            .iter()
            .map(|hole| hole * PAYLOAD)
            .chain([received]);
        let spans = behind.zip(until).map(|(left, right)| left..right);
        (
            first * PAYLOAD,
            spans.filter(|span| !span.is_empty()).collect(),
        )
    }
}

fn common_rseq(body: &Body<'_>) -> u64 {
    match body {
        Body::Cntl(common) | Body::Ecntl(common, _) => common.rseq,
        _ => 0,
    }
}

const BYTES: u64 = 12_000_000;

/// A group of four, the last of which may lie: the time until the sender ended, and the state in
/// which the last one is reported.
fn run(lie: Option<Lie>) -> (u64, MemberState) {
    let config = Config {
        packet_len: PACKET_LEN,
        window: 64 << 10,
        members_min: 4,
        ..Config::default()
    };
    let mut stations = vec![Station::sender(&config, BYTES)];
    stations.extend((0..4).map(|_| Station::receiver(&config)));
    stations[4].lie = lie;
    let mut network = GroupNetwork::new(stations, 3);
    network.run(100_000 * MS);
    assert_eq!(
        network.hosts[0].closed,
        Some(CloseReason::Graceful),
        "{lie:?}"
    );
    for station in 1..=3 {
        let stream = network.stream(station).expect("it joined");
        let got = (stream.bytes, stream.wrong, stream.gaps, stream.finished);
        assert_eq!(got, (BYTES, 0, 0, true), "{lie:?}: {station}");
    }
    let end = network.trace.iter().rfind(|(_, from, _)| *from == 0);
    let id = network.hosts[0].sending.expect("it sends");
    let members = network.hosts[0].engine.members(id);
    let last = members
        .iter()
        .find(|member| member.address == engine::Address::Station(4));
    let state = last.expect("it was a member").state;
    (end.expect("it sent").0, state)
}

#[test]
fn lying_member_costs_the_others_less_than_a_tenth() {
    let (honest_ps, state) = run(None);
    assert_eq!(state, MemberState::Done);
    for (lie, expected) in [
        (Lie::AllLost, Some(MemberState::Excluded)),
        (Lie::LatestLost, Some(MemberState::Excluded)),
        (Lie::FirstLostThrice, None),
        (Lie::TenthLost, None),
        (Lie::SeventeenthLost, Some(MemberState::Done)),
    ] {
        let (time_ps, state) = run(Some(lie));
        let goodput = honest_ps as f64 / time_ps as f64;
        println!("{lie:?}: {goodput:.3} of the goodput, {state:?}");
        assert!(expected.is_none_or(|expected| expected == state), "{lie:?}");
        assert!(goodput > 0.9, "{lie:?}: {goodput:.3} of the goodput");
    }
}

#[test]
fn excluded_host_does_not_join_again() {
    let config = Config {
        packet_len: PACKET_LEN,
        window: 64 << 10,
        members_min: 2,
        ..Config::default()
    };
    let mut stations = vec![Station::sender(&config, 3_000_000)];
    stations.extend((0..2).map(|_| Station::receiver(&config)));
    stations[2].lie = Some(Lie::AllLost);
    stations[2].crash_ps = Some(100 * MS);
    stations[2].restart_ps = Some(101 * MS);
    let mut network = GroupNetwork::new(stations, 3);
    network.run(100_000 * MS);
    assert_eq!(network.hosts[0].closed, Some(CloseReason::Graceful));
    let id = network.hosts[0].sending.expect("it sends");
    let members = network.hosts[0].engine.members(id);
    let states: Vec<_> = members.iter().map(|member| member.state).collect();
    assert_eq!(states, [MemberState::Excluded, MemberState::Done]);
}
