//! Chunks that are authenticated (RFC 4895), against usrsctp.

use crate::interop::{LOSSY, messages};
use crate::peers::config;
use engine_sctp::pdu::{ChunkType, Chunks, HmacId, KeyId};
use engine_sctp::{Authentication, SctpConfig, SharedKey};
use sctp_peers::exchange::{Faults, mistake, run};
use sctp_peers::stack::{Ours, SHARED_KEY, Stack, Usrsctp};
use std::path::Path;

/// Our end, with the key of usrsctp's.
fn ours(seed: u64, hmac: HmacId) -> Ours {
    let (number, key) = SHARED_KEY;
    let mut authentication = Authentication {
        chunks: vec![
            ChunkType::DATA,
            ChunkType::SACK,
            ChunkType::SHUTDOWN_ACK,
            ChunkType::COOKIE_ECHO,
        ],
        hmacs: vec![hmac, HmacId::SHA1],
        ..Authentication::default()
    };
    let shared = SharedKey::new(key);
    authentication.keys.insert(KeyId(number), shared);
    authentication.active_key = KeyId(number);
    Ours::new(SctpConfig {
        authentication: Some(authentication),
        ..config(seed)
    })
}

/// DATA of an end without an AUTH in front, and with one.
fn data(captured: &[sctp_peers::capture::Captured]) -> (usize, usize) {
    let (mut plain, mut sealed) = (0, 0);
    for (_, packet) in captured {
        let mut kinds = Chunks::new(packet).map(|chunk| chunk.kind);
        let first = kinds.next();
        if kinds.any(|kind| kind == ChunkType::DATA) || first == Some(ChunkType::DATA) {
            match first {
                Some(ChunkType::AUTH) => sealed += 1,
                _ => plain += 1,
            }
        }
    }
    (plain, sealed)
}

fn exchange(seed: u64, faults: Faults) {
    let sent = [messages(seed, 60), messages(seed + 1000, 60)];
    for our_role in [0, 1] {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let mut theirs = match Usrsctp::start(folder, our_role == 0, "A") {
            Ok(started) => started,
            Err(reason) => {
                println!("SKIPPED: {reason}; authentication against usrsctp was not tested");
                return;
            }
        };
        let hmac = [HmacId::SHA256, HmacId::SHA1][(seed % 2) as usize];
        let mut ours = ours(seed, hmac);
        let ends: [&mut dyn Stack; 2] = match our_role {
            0 => [&mut ours, &mut theirs],
            _ => [&mut theirs, &mut ours],
        };
        let outcome = match run(ends, [&sent[0], &sent[1]], faults, seed) {
            Ok(outcome) => outcome,
            Err(error) => panic!("role {our_role}, seed {seed}: {error}"),
        };
        for end in [0, 1] {
            let mistake = mistake(&sent[end], &outcome.received[1 - end]);
            assert_eq!(mistake, None, "seed {seed}, from {end}");
            let (plain, sealed) = data(&outcome.captured[end]);
            assert!(plain == 0 && sealed > 60, "seed {seed}: {plain} {sealed}");
        }
    }
}

#[test]
fn usrsctp_and_our_end_authenticate_data_and_cookies() {
    exchange(0, Faults::NONE);
    exchange(1, Faults::NONE);
    for seed in 2..6 {
        exchange(seed, LOSSY);
    }
}
