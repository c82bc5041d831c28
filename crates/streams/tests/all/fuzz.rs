//! The function of the fuzz target of ioctls, on random scripts.

#[path = "../../../../fuzz/src/streams.rs"]
mod targets;

/// The next number of a generator (xorshift64).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn requests_of_any_kind_and_order_are_carried_out_or_refused() {
    let (mut state, mut done) = (21, 0);
    for _ in 0..2000 {
        let len = 4 * (1 + random(&mut state) as usize % 60);
        let script: Vec<u8> = (0..len).map(|_| random(&mut state) as u8).collect();
        done += targets::ioctls(&script);
    }
    assert!(
        done > 20_000,
        "{done} of some 60,000 requests were carried out"
    );
}
