//! Two endpoints in virtual time, with loss, reordering and duplication between.

use crate::drawn::seeds;
use crate::support::{MS, Message, Reader, RunOutcome, faulty_link, run};
use engine::{Framing, Note, SplitMix64};
use engine_sctp::pdu::{ChunkType, Chunks};
use engine_sctp::{CongestionChoice, SctpConfig};
use link::LinkConfig;

const AT_ONCE: Reader = Reader { from_ms: 0 };

fn configs(seed: u64) -> [SctpConfig; 2] {
    [0, 1].map(|station| SctpConfig {
        seed: 2 * seed + station,
        secret: engine::Secret::from_seed(2 * seed + station),
        ..SctpConfig::default()
    })
}

fn clean_link() -> LinkConfig {
    LinkConfig {
        rate_bps: Some(100_000_000),
        delay_ps: MS,
        ..LinkConfig::default()
    }
}

/// Messages of random lengths on streams, ordered and not.
fn messages(count: usize, seed: u64, streams: u64) -> Vec<Message> {
    let mut random = SplitMix64::new(seed);
    let message = |index: usize| {
        let len = [1, 3, 64, 1444, 1445, 1448, 5000, 12_000][random.below(8) as usize];
        let note = Note {
            stream: random.below(streams) as u16,
            tag: (random.below(2) == 0).then(|| 1 + random.below(1 << 31)),
            unordered: streams > 1 && random.below(4) == 0,
            ..Note::default()
        };
        let mut bytes: Vec<u8> = (0..len).map(|at| (index * 31 + at) as u8).collect();
        bytes.extend((index as u32).to_be_bytes());
        Message { bytes, note }
    };
    (0..count).map(message).collect()
}

/// Every message came once and whole, and those of a stream in order.
fn assert_delivered(sent: &[Message], outcome: &RunOutcome, what: &str) {
    assert_eq!(outcome.messages_damaged, 0, "{what}");
    let kinds = sent.iter().map(|one| (one.note.stream, one.note.unordered));
    let mut kinds: Vec<_> = kinds.collect();
    kinds.sort();
    kinds.dedup();
    for kind in kinds {
        let of = |all: &[Message]| -> Vec<Message> {
            let mut of: Vec<Message> = all
                .iter()
                .filter(|one| (one.note.stream, one.note.unordered) == kind)
                .cloned()
                .collect();
            if kind.1 {
                of.sort_by_key(|one| one.bytes.last_chunk::<4>().copied());
            }
            of
        };
        assert!(of(sent) == of(&outcome.received), "{what}: stream {kind:?}");
    }
    assert_eq!(sent.len(), outcome.received.len(), "{what}");
}

#[test]
fn clean_link_delivers_all_without_retransmission() {
    let sent = messages(400, 1, 1);
    let outcome = run(configs(1), &sent, clean_link(), 1, AT_ONCE);
    assert!(outcome.received == sent, "in the order of the only stream");
    assert_eq!(outcome.retransmissions, 0);
    assert_eq!(outcome.closed, [true, true]);
}

#[test]
fn faults_neither_lose_nor_double_nor_reorder_messages_of_a_stream() {
    for seed in seeds(25) {
        let sent = messages(150, seed, 1 + seed % 5);
        let outcome = run(configs(seed), &sent, faulty_link(), seed, AT_ONCE);
        assert_delivered(&sent, &outcome, &format!("seed {seed}"));
        assert_eq!(outcome.closed, [true, true], "seed {seed}");
    }
}

#[test]
fn every_congestion_control_gets_through_faults() {
    for word in ["rfc9260", "newreno", "ledbat", "bbr", "off"] {
        let sent = messages(150, 3, 3);
        let choice = CongestionChoice::from_name(word).expect("a name");
        let configs = configs(3).map(|config| SctpConfig {
            congestion: choice,
            ..config
        });
        let outcome = run(configs, &sent, faulty_link(), 3, AT_ONCE);
        assert_delivered(&sent, &outcome, word);
    }
}

#[test]
fn equal_seeds_give_equal_traces() {
    let sent = messages(60, 4, 3);
    let trace = |seed| run(configs(seed), &sent, faulty_link(), seed, AT_ONCE).trace;
    assert!(trace(4) == trace(4));
    assert!(trace(4) != trace(5));
}

#[test]
fn byte_stream_is_one_message_without_end() {
    for (seed, link) in [(1, clean_link()), (2, faulty_link()), (3, faulty_link())] {
        let sent = messages(300, seed, 1);
        let configs = configs(seed).map(|config| SctpConfig {
            framing: Framing::Stream,
            ..config
        });
        let outcome = run(configs, &sent, link, seed, AT_ONCE);
        let bytes = |all: &[Message]| -> Vec<u8> {
            all.iter()
                .flat_map(|one| one.bytes.iter().copied())
                .collect()
        };
        let sent: Vec<Message> = sent.into_iter().collect();
        assert!(bytes(&sent) == bytes(&outcome.received), "seed {seed}");
        assert_eq!(outcome.closed, [true, true]);
    }
}

#[test]
fn user_that_does_not_read_shuts_the_window_and_loses_nothing() {
    for seed in 0..4 {
        let sent = messages(200, seed, 3);
        let mut configs = configs(seed);
        configs[1].receive_buffer = 20_000;
        let link = match seed {
            0 => clean_link(),
            _ => faulty_link(),
        };
        let outcome = run(configs, &sent, link, seed, Reader { from_ms: 30_000 });
        assert_delivered(&sent, &outcome, &format!("seed {seed}"));
        assert!(outcome.elapsed_ms >= 30_000);
        assert_eq!(outcome.closed, [true, true], "seed {seed}");
    }
}

#[test]
fn window_shut_for_minutes_opens_again_without_a_loss() {
    for seed in seeds(4) {
        let sent = messages(120, seed, 4);
        let mut configs = configs(seed);
        configs[1].receive_buffer = 16_000;
        let link = match seed {
            0 => clean_link(),
            _ => faulty_link(),
        };
        let outcome = run(configs, &sent, link, seed, Reader { from_ms: 240_000 });
        assert_delivered(&sent, &outcome, &format!("seed {seed}"));
        assert!(
            outcome.elapsed_ms >= 240_000,
            "it was shut for four minutes"
        );
        assert_eq!(outcome.closed, [true, true], "seed {seed}");
    }
}

#[test]
fn window_holds_no_more_short_messages_than_the_host_keeps() {
    // A host keeps a record of each message, longer than the message: more of them than it may keep would be
    // dropped though the window had room.
    let short = |index: u32| Message {
        bytes: vec![index as u8],
        note: Note::default(),
    };
    let sent: Vec<Message> = (0..20_000).map(short).collect();
    let mut configs = configs(1);
    configs[1].receive_buffer = 100_000;
    let outcome = run(configs, &sent, clean_link(), 1, Reader { from_ms: 3000 });
    assert!(outcome.received == sent, "in the order of the only stream");
    assert_eq!(outcome.retransmissions, 0, "nothing was dropped");
    assert!(outcome.elapsed_ms >= 3000, "the window was shut");
}

#[test]
fn buffer_full_of_halves_is_no_deadlock() {
    // Messages longer than the receive buffer on many streams, with losses: what waits for the rest of
    // its message fills the buffer, and the rest must come in all the same.
    for seed in seeds(6) {
        let long = |index: u32| Message {
            bytes: [&vec![index as u8; 24_000][..], &index.to_be_bytes()].concat(),
            note: Note {
                stream: (index % 8) as u16,
                unordered: index.is_multiple_of(3),
                ..Note::default()
            },
        };
        let sent: Vec<Message> = (0..48).map(long).collect();
        let mut configs = configs(seed);
        configs[1].receive_buffer = 12_000;
        let link = LinkConfig {
            loss_ppm: 60_000,
            ..faulty_link()
        };
        let outcome = run(configs, &sent, link, seed, AT_ONCE);
        assert_delivered(&sent, &outcome, &format!("seed {seed}"));
        assert_eq!(outcome.closed, [true, true], "seed {seed}");
    }
}

#[test]
fn small_messages_share_packets_unless_bundling_is_off() {
    let sent: Vec<Message> = messages(1000, 5, 1)
        .into_iter()
        .map(|one| Message {
            bytes: one.bytes[..1].to_vec().repeat(64),
            ..one
        })
        .collect();
    let packets = |bundle| {
        let configs = configs(5).map(|config| SctpConfig { bundle, ..config });
        let outcome = run(configs, &sent, clean_link(), 5, AT_ONCE);
        assert!(outcome.received == sent);
        let data = |line: &&sim::TraceLine| {
            line.from == 0 && Chunks::new(&line.packet).any(|chunk| chunk.kind == ChunkType::DATA)
        };
        outcome.trace.iter().filter(data).count()
    };
    assert!(packets(true) < 1000 / 10);
    assert_eq!(packets(false), 1000);
}

#[test]
fn checksum_of_zero_is_used_by_ends_that_agree() {
    let sent = messages(50, 6, 1);
    for (checksums, expected) in [([false, false], true), ([false, true], false)] {
        let mut both = configs(6);
        both[0].checksum = checksums[0];
        both[1].checksum = checksums[1];
        let outcome = run(both, &sent, clean_link(), 6, AT_ONCE);
        assert!(outcome.received == sent);
        let has_zero = |line: &sim::TraceLine| line.packet[8..12] == [0; 4];
        let zeros = outcome.trace.iter().filter(|line| has_zero(line)).count();
        assert_eq!(zeros > 10, expected, "{zeros} packets");
        assert!(
            outcome.trace[..3].iter().all(|line| !has_zero(line)),
            "the handshake has it"
        );
    }
}

#[test]
fn lost_chunk_holds_up_its_own_stream_alone() {
    let sent: Vec<Message> = (0..400u32)
        .map(|index| Message {
            bytes: [&[7; 1000][..], &index.to_be_bytes()].concat(),
            note: Note {
                stream: (index % 4) as u16,
                ..Note::default()
            },
        })
        .collect();
    let link = LinkConfig {
        loss_ppm: 20_000,
        ..clean_link()
    };
    let outcome = run(configs(7), &sent, link, 7, AT_ONCE);
    assert_delivered(&sent, &outcome, "four streams");
    let number = |one: &Message| {
        one.bytes
            .last_chunk::<4>()
            .map(|at| u32::from_be_bytes(*at))
    };
    let overtook = outcome
        .received
        .windows(2)
        .filter(|pair| number(&pair[0]) > number(&pair[1]));
    assert!(overtook.count() > 3, "messages of other streams went on");
}

#[test]
fn losses_are_repaired_before_the_timeout() {
    let sent: Vec<Message> = messages(300, 8, 1).into_iter().collect();
    let link = LinkConfig {
        loss_ppm: 10_000,
        ..clean_link()
    };
    let outcome = run(configs(8), &sent, link, 8, AT_ONCE);
    assert!(outcome.retransmissions > 3);
    // 1.2 MB at 100 Mbit/s are 100 ms; each timeout is 200 ms at least.
    assert!(outcome.elapsed_ms < 1500, "{} ms", outcome.elapsed_ms);
}
