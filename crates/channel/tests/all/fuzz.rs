//! The function of the fuzz target on drawn octets: a fixed number of rounds, or as many as
//! TOWPATH_SEEDS says.

#[path = "../../../../fuzz/src/channel.rs"]
mod targets;

#[test]
fn drawn_words_of_the_peer_end_in_messages_or_errors() {
    let wanted = std::env::var("TOWPATH_SEEDS").ok();
    let rounds = wanted.and_then(|text| text.parse().ok()).unwrap_or(2000);
    let mut moved = 0;
    for round in 0..rounds {
        let mut state = round + 1;
        let mut random = move || {
            state = u64::wrapping_mul(state, 6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let len = random() % 200;
        let octets: Vec<u8> = (0..len).map(|_| random() as u8).collect();
        moved += targets::words(&octets);
    }
    assert!(moved > rounds, "{moved} messages of {rounds} scripts");
}
