//! Streams that begin anew in mid-association (RFC 6525).

use crate::interop::{LOSSY, messages};
use crate::peers::{Peer, ours, theirs};
use engine_sctp::pdu::re_config::ReconfigResult;
use engine_sctp::pdu::{ChunkType, Chunks, ReconfigParameter};
use sctp_peers::capture::Captured;
use sctp_peers::exchange::{Faults, mistake, run_with_resets};
use sctp_peers::stack::Stack;

/// Requests to reset own streams among what an end sent, and requests of its peer that it performed.
fn resets(captured: &[Captured]) -> (usize, usize) {
    let (mut asked, mut performed) = (0, 0);
    for chunk in captured.iter().flat_map(|(_, packet)| Chunks::new(packet)) {
        if chunk.kind != ChunkType::RE_CONFIG {
            continue;
        }
        for parameter in ReconfigParameter::parse_all(chunk.value).expect("well formed") {
            match parameter {
                ReconfigParameter::ResetOutgoing { .. } => asked += 1,
                ReconfigParameter::Response {
                    result: ReconfigResult::PERFORMED,
                    ..
                } => performed += 1,
                _ => {}
            }
        }
    }
    (asked, performed)
}

/// Both ends reset their streams after half of their messages; each message arrives once and in the order
/// of its stream, or waits for ever for a number that never comes.
fn both_ends_reset(peer: Peer, faults: Faults, seeds: u64) {
    for seed in 0..seeds {
        let sent = [messages(seed, 60), messages(seed + 1000, 60)];
        let Some(mut theirs) = theirs(peer, seed % 2 == 0) else {
            return;
        };
        let mut ours = ours(seed);
        let ends: [&mut dyn Stack; 2] = match seed % 2 {
            0 => [&mut *ours, &mut *theirs],
            _ => [&mut *theirs, &mut *ours],
        };
        let messages = [&sent[0][..], &sent[1][..]];
        let outcome = match run_with_resets(ends, messages, faults, [true; 2], seed) {
            Ok(outcome) => outcome,
            Err(error) => panic!("{peer:?}, seed {seed}: {error}"),
        };
        for end in [0, 1] {
            let mistake = mistake(&sent[end], &outcome.received[1 - end]);
            assert_eq!(mistake, None, "{peer:?}, seed {seed}, from {end}");
            let (asked, performed) = resets(&outcome.captured[end]);
            assert!(
                asked > 0 && performed > 0,
                "{peer:?}, seed {seed}, end {end}"
            );
        }
    }
}

#[test]
fn dcsctp_and_our_end_reset_their_streams_with_loss_reordering_and_duplication() {
    both_ends_reset(Peer::Dcsctp, Faults::NONE, 2);
    both_ends_reset(Peer::Dcsctp, LOSSY, 6);
}

#[test]
fn usrsctp_and_our_end_reset_their_streams_with_loss_reordering_and_duplication() {
    both_ends_reset(Peer::Usrsctp, Faults::NONE, 2);
    both_ends_reset(Peer::Usrsctp, LOSSY, 6);
}
