//! What a peer sees of an endpoint does not let it predict what others get.

use engine::{Address, Associations, Batch, Instant, Protocol, Secret, SplitMix64};
use engine_xtp::pdu::Packet;
use engine_xtp::{Config, Xtp};

/// Keys and first syncs of `count` associations of an endpoint, as its peers see them.
fn visible(secret: Secret, count: u32) -> Vec<(u64, u32)> {
    let mut xtp = Xtp::new(Config {
        secret,
        explicit: true,
        ..Config::default()
    });
    let now = Instant::from_nanos(0);
    let mut seen = Vec::new();
    for peer in 0..count {
        xtp.connect(now, &[Address::Station(peer)]).expect("room");
        let mut batch = Batch::new(1);
        xtp.poll_transmit(now, &mut batch);
        let mut octets = Vec::new();
        batch.write(&batch.packets()[0], &mut octets, |_, _, _| {});
        let packet = Packet::parse(&octets).expect("a good packet");
        seen.push((packet.header.key, packet.header.sync.0));
    }
    seen
}

/// What remains of the 64-bit number behind a key: 42 bits, and one that is always set.
const KEY_BITS: u32 = 42;

/// The attack on keys and syncs that are neighbours in one SplitMix64 stream: for each of the 2^22
/// missing values of the first number, its state follows, and so does the next number.
fn predicts(key: u64, next_sync: u32) -> bool {
    let known = key >> 21;
    (0..1_u64 << 22).any(|missing| {
        let number = known << (64 - KEY_BITS) | missing;
        let state = unmix(number);
        SplitMix64::new(state).next_u64() as u32 == next_sync
    })
}

/// The state after which SplitMix64 gave `number`: its output function is a bijection.
fn unmix(number: u64) -> u64 {
    let mut z = number;
    z ^= z >> 31 ^ z >> 62;
    z = z.wrapping_mul(0x3196_42b2_d24d_8ec3);
    z ^= z >> 27 ^ z >> 54;
    z = z.wrapping_mul(0x96de_1b17_3f11_9089);
    z ^ z >> 30 ^ z >> 60
}

#[test]
fn unmix_inverts_splitmix() {
    let mut stream = SplitMix64::new(99);
    let number = stream.next_u64();
    let next = stream.next_u64();
    assert_eq!(SplitMix64::new(unmix(number)).next_u64(), next);
}

#[test]
fn attack_works_against_successive_numbers_of_one_splitmix_stream() {
    let mut stream = SplitMix64::new(4);
    let key = (stream.next_u64() >> 21 | 1) << 20 | 77;
    assert!(predicts(key, stream.next_u64() as u32));
}

#[test]
fn one_honest_association_does_not_predict_the_next() {
    for seed in 0..3 {
        let seen = visible(Secret::from_seed(seed), 3);
        // The sync goes out with the key; the next key's upper bits are those of the next number.
        assert!(
            !predicts(seen[0].0, seen[0].1),
            "seed {seed}: the key gives the sync away"
        );
        assert!(
            !predicts(seen[0].0, seen[1].1),
            "seed {seed}: a key gives a later sync away"
        );
    }
}

#[test]
fn keys_differ_between_secrets_and_repeat_with_one() {
    let of = |seed| visible(Secret::from_seed(seed), 50);
    assert_eq!(of(1), of(1));
    let (one, other) = (of(1), of(2));
    assert!(
        one.iter()
            .zip(&other)
            .all(|(a, b)| a.0 != b.0 && a.1 != b.1)
    );
}
