//! On which processor the helper runs what was put off.

use crate::kit::{LIMIT, pair};
use std::time::{Duration, Instant};
use xti::{Affinity, Flags, StreamOptions};

/// What the helper counted after it carried some messages for an endpoint: on the processor that queued them, on others.
fn helped(affinity: Affinity) -> (u64, u64) {
    let (client, server) = pair(StreamOptions {
        affinity,
        ..StreamOptions::default()
    });
    let end = Instant::now() + LIMIT;
    let mut buffer = [0; 16];
    for _ in 0..20 {
        client.send(b"put off", Flags::default(), LIMIT).unwrap();
        // Nobody but the helper lets it leave.
        let got = server.receive_within(&mut buffer, LIMIT).unwrap();
        assert_eq!(&buffer[..got.len], b"put off");
    }
    while affinity != Affinity::Any && client.helped() == (0, 0) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    client.helped()
}

#[test]
fn helper_runs_on_the_processor_that_is_asked_for() {
    assert_eq!(helped(Affinity::Any), (0, 0), "nobody asked");
    let (same, other) = helped(Affinity::Same);
    assert!(same > 0 && other == 0, "{same} {other}");
    if let Err(why) = Affinity::Other.check() {
        assert!(why.contains("second processor"), "{why}");
        return;
    }
    let (same, other) = helped(Affinity::Other);
    assert!(other > 0 && same == 0, "{same} {other}");
}
