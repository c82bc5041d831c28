//! Messages of several streams, ordered and not, both ways.

use crate::peers::{Peer, config, interleaving, ours, theirs, theirs_with};
use engine::SplitMix64;
use engine_sctp::SctpConfig;
use sctp_peers::capture;
use sctp_peers::exchange::{Faults, Message, Outcome, mistake, run};
use sctp_peers::stack::{Dcsctp, Label, Order, Ours, Stack};
use std::path::Path;

/// Seeds of each test with faults.
const SEEDS: u64 = 6;

pub const LOSSY: Faults = Faults {
    loss: 30,
    duplication: 30,
    reordering: 50,
};

/// Messages of the lengths that matter: one byte, what shares a packet, a packet, many packets.
pub fn messages(seed: u64, count: usize) -> Vec<Message> {
    let mut random = SplitMix64::new(seed);
    let lens = [1, 3, 64, 700, 1150, 1172, 1173, 5000, 40_000];
    (0..count)
        .map(|index| Message {
            label: Label {
                stream: random.below(6) as u16,
                ppid: 51 + 2 * random.below(2) as u32,
            },
            order: match random.below(4) {
                0 => Order::Unordered,
                _ => Order::Ordered,
            },
            bytes: {
                let len = lens[random.below(lens.len() as u64) as usize];
                (0..len).map(|at| (at + index * 7) as u8).collect()
            },
        })
        .collect()
}

/// Runs an exchange of a pair and checks what arrived.
fn check(ends: [&mut dyn Stack; 2], sent: [&[Message]; 2], faults: Faults, seed: u64) -> Outcome {
    let names = [ends[0].name(), ends[1].name()];
    let outcome = match run(ends, sent, faults, seed) {
        Ok(outcome) => outcome,
        Err(error) => panic!("{names:?}, seed {seed}: {error}"),
    };
    for (from, sent) in sent.iter().enumerate() {
        let mistake = mistake(sent, &outcome.received[1 - from]);
        assert_eq!(mistake, None, "from {}, seed {seed}", names[from]);
    }
    outcome
}

/// Our end opens the association, and the other end does.
fn both_roles(peer: Peer, faults: Faults, seed: u64) -> Vec<(usize, Outcome)> {
    let sent = [messages(seed, 120), messages(seed + 1000, 120)];
    let sent = [&sent[0][..], &sent[1][..]];
    let mut outcomes = Vec::new();
    for our_role in [0, 1] {
        let Some(mut theirs) = theirs(peer, our_role == 0) else {
            return outcomes;
        };
        let mut ours = ours(seed);
        let ends: [&mut dyn Stack; 2] = match our_role {
            0 => [&mut *ours, &mut *theirs],
            _ => [&mut *theirs, &mut *ours],
        };
        outcomes.push((our_role, check(ends, sent, faults, seed)));
    }
    outcomes
}

fn with_faults(peer: Peer) {
    for seed in 0..SEEDS {
        both_roles(peer, LOSSY, seed);
    }
}

fn decoded_by_tshark(peer: Peer) {
    for (our_role, outcome) in both_roles(peer, LOSSY, 77) {
        let name = format!("{peer:?}-{our_role}.pcap");
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        match capture::faults(&file, &outcome.captured[our_role]).expect("tshark decodes it") {
            Some(faults) => assert_eq!(faults, [""; 0], "{peer:?}"),
            None => println!("SKIPPED: tshark is not installed; no packet was decoded by it"),
        }
    }
}

#[test]
fn usrsctp_exchanges_all_messages_on_a_clean_link_in_both_roles() {
    both_roles(Peer::Usrsctp, Faults::NONE, 1);
}

#[test]
fn usrsctp_exchanges_all_messages_with_loss_reordering_and_duplication() {
    with_faults(Peer::Usrsctp);
}

#[test]
fn sctp_proto_exchanges_all_messages_on_a_clean_link_in_both_roles() {
    both_roles(Peer::SctpProto, Faults::NONE, 1);
}

#[test]
fn sctp_proto_exchanges_all_messages_with_loss_reordering_and_duplication() {
    with_faults(Peer::SctpProto);
}

#[test]
fn dcsctp_exchanges_all_messages_on_a_clean_link_in_both_roles() {
    both_roles(Peer::Dcsctp, Faults::NONE, 1);
}

#[test]
fn dcsctp_exchanges_all_messages_with_loss_reordering_and_duplication() {
    with_faults(Peer::Dcsctp);
}

#[test]
fn tshark_finds_no_fault_in_our_packets_to_other_stacks() {
    for peer in [Peer::Usrsctp, Peer::SctpProto, Peer::Dcsctp] {
        decoded_by_tshark(peer);
    }
}

/// Messages of which half may be given up when something of them is lost.
fn partly_once(seed: u64, count: usize) -> Vec<Message> {
    let mut all = messages(seed, count);
    for (index, message) in all.iter_mut().enumerate() {
        // Known by their lengths and first bytes, whatever is lost in front of them.
        message.bytes.truncate(6000);
        message.bytes.extend((index as u32).to_be_bytes());
        message.order = match (message.order, index % 2) {
            (Order::Ordered, 1) => Order::OrderedOnce,
            (Order::Unordered, 1) => Order::UnorderedOnce,
            (order, _) => order,
        };
    }
    all
}

/// Both roles with messages that may be given up, or that take turns; how many did not come, or as many as
/// can be if the other end is not there.
fn extended(peer: Peer, interleaves: bool, once: bool) -> usize {
    let mut missing = 0;
    for seed in 0..SEEDS {
        let of = |seed| match once {
            true => partly_once(seed, 120),
            false => messages(seed, 120),
        };
        let sent = [of(seed), of(seed + 1000)];
        let sent = [&sent[0][..], &sent[1][..]];
        for our_role in [0, 1] {
            let Some(mut theirs) = theirs_with(peer, our_role == 0, interleaves) else {
                return usize::MAX;
            };
            let config = match interleaves {
                true => interleaving(seed),
                false => config(seed),
            };
            let mut ours = Ours::new(config);
            let ends: [&mut dyn Stack; 2] = match our_role {
                0 => [&mut ours, &mut *theirs],
                _ => [&mut *theirs, &mut ours],
            };
            let outcome = check(ends, sent, LOSSY, seed);
            missing += 240 - outcome.received.iter().map(Vec::len).sum::<usize>();
            let kinds: Vec<u8> = outcome
                .captured
                .iter()
                .flatten()
                .map(|(_, it)| it[12])
                .collect();
            assert_eq!(kinds.contains(&64), interleaves, "I-DATA");
        }
    }
    missing
}

#[test]
fn usrsctp_and_our_end_give_messages_up() {
    assert!(extended(Peer::Usrsctp, false, true) > 20);
}

#[test]
fn sctp_proto_and_our_end_give_messages_up() {
    assert!(extended(Peer::SctpProto, false, true) > 20);
}

#[test]
fn dcsctp_and_our_end_give_messages_up() {
    assert!(extended(Peer::Dcsctp, false, true) > 20);
}

#[test]
fn usrsctp_and_our_end_interleave_messages() {
    extended(Peer::Usrsctp, true, false);
    assert!(extended(Peer::Usrsctp, true, true) > 20);
}

#[test]
fn dcsctp_and_our_end_interleave_messages() {
    assert_eq!(extended(Peer::Dcsctp, true, false), 0);
    assert!(extended(Peer::Dcsctp, true, true) > 20);
}

/// The error detection method of our own ends (0024), which dcsctp can be told to have too.
const OUR_METHOD: u32 = 0x746f_7770;

#[test]
fn zero_checksum_with_dcsctp_leaves_the_checksum_out_of_data_in_both_directions() {
    let sent = [messages(3, 60), messages(4, 60)];
    let sent = [&sent[0][..], &sent[1][..]];
    for our_role in [0, 1] {
        let mut ours = Ours::new(SctpConfig {
            checksum: false,
            ..config(5)
        });
        let mut theirs = Dcsctp::new(1200, OUR_METHOD);
        let ends: [&mut dyn Stack; 2] = match our_role {
            0 => [&mut ours, &mut theirs],
            _ => [&mut theirs, &mut ours],
        };
        let outcome = check(ends, sent, LOSSY, 5);
        for captured in &outcome.captured {
            let with_data = captured.iter().filter(|(_, packet)| packet[12] == 0);
            let zeros = with_data.filter(|(_, packet)| packet[8..12] == [0; 4]);
            assert!(zeros.count() > 60, "data leave without a checksum");
        }
    }
}

/// All messages arrive while our end probes; its longest packet with data has `longest` octets: more than
/// the base length of 1200 if the peer skips PAD beside a HEARTBEAT and answers.
fn probed(peer: Peer, longest: usize) {
    let sent = [messages(8, 120), messages(9, 120)];
    let sent = [&sent[0][..], &sent[1][..]];
    for our_role in [0, 1] {
        let Some(mut theirs) = theirs(peer, our_role == 0) else {
            return;
        };
        let mut ours = Ours::new(SctpConfig {
            probes_path_mtu: true,
            packet_len: 1452,
            ..config(6)
        });
        let ends: [&mut dyn Stack; 2] = match our_role {
            0 => [&mut ours, &mut *theirs],
            _ => [&mut *theirs, &mut ours],
        };
        let outcome = check(ends, sent, Faults::NONE, 6);
        let packets = outcome.captured[our_role].iter();
        let with_data = packets.filter(|(_, packet)| packet[12] == 0);
        let found = with_data.map(|(_, packet)| packet.len()).max();
        assert_eq!(found, Some(longest), "{peer:?}, role {our_role}");
    }
}

/// sctp-proto drops packets with a chunk that it does not know, although PAD is one to be skipped (RFC 9260
/// section 3.2): its associations stay at the base length.
#[test]
fn sctp_proto_drops_probes_of_the_path_mtu_and_loses_nothing_else() {
    probed(Peer::SctpProto, 1200);
}

#[test]
fn dcsctp_answers_probes_of_the_path_mtu() {
    probed(Peer::Dcsctp, 1452);
}
