//! Seeds that broke an invariant once, and scenarios made of what broke most of them.

use scenario::parse;
use scenario::swarm::{check, check_scenario, draw};

/// Each seed, and why it broke.
const BROKEN: &[(u64, &str)] = &[
    (1_000_287, SHORT_KEY),
    (1_013_646, SHORT_KEY),
    (1_014_272, SHORT_KEY),
    (1_015_941, SHORT_KEY),
    (1_020_828, SHORT_KEY),
    (1_031_186, SHORT_KEY),
    (1_048_328, SHORT_KEY),
    (1_052_993, SHORT_KEY),
    (1_063_775, SHORT_KEY),
    (1_083_296, SHORT_KEY),
    (1_097_603, SHORT_KEY),
    (1_110_414, SHORT_KEY),
    (1_119_260, PACED_BELOW_PROBE),
    (1_119_320, SHORT_KEY),
    (1_181_468, SHORT_KEY),
    (1_183_236, SHORT_KEY),
    (1_211_595, SHORT_KEY),
    (1_649_637, EARLIER_ROUTE),
    (85_899_346_372, ASKED_WITHOUT_PAUSE),
    (85_899_347_493, CONTENTS_FORGOTTEN),
    (85_899_347_775, ASKED_WITHOUT_PAUSE),
    (85_899_348_728, ASKED_WITHOUT_PAUSE),
    (103_079_215_112, DELIVERED_TWICE),
    (103_079_215_154, EARLIER_PORT),
];

/// The path duplicated packets: a check asked of UDP what it does not promise.
const DELIVERED_TWICE: &str = "UDP: a datagram that came twice";

/// Messages of a new circuit were taken for those of an old one.
const EARLIER_PORT: &str = "UDP: a restarted station chose a port of its earlier life";

/// Packets of an association were taken for those of another one with the same key: its messages stay,
/// or bytes of one get into the other and messages end at wrong places.
const SHORT_KEY: &str = "3.x: a restarted station chose a key of its earlier life";

/// The rate stayed at its floor: headers were paced and not measured, and every other packet came
/// behind a gap at a receiver that drops such packets.
const PACED_BELOW_PROBE: &str = "BBR never probed above what it measured";

/// Each answer, also one that was late, ended the back-off: Responses that shared a slow line were asked for every 30 ms,
/// and nothing but repetitions came through.
const ASKED_WITHOUT_PAUSE: &str = "VMTP asked again although answers were on their way";

/// Messages of repaired cells were compared with others: a station knew what its last 1,024 packets carry, and more were
/// on their way.
const CONTENTS_FORGOTTEN: &str = "the simulator forgot what a packet carries";

/// FIRST came on a route of the station's earlier life, and again on another: two associations.
const EARLIER_ROUTE: &str =
    "3.6: a restarted station accepted a FIRST on a route that it did not know";

#[test]
fn seeds_that_broke_an_invariant_hold() {
    for (seed, reason) in BROKEN {
        let held = check(*seed);
        assert!(held.is_ok(), "{held:?}; it broke before: {reason}");
    }
}

/// Scenarios of XTP 3.x whose restarted stations choose a key of their earlier life again.
const REPEATED_KEYS: usize = 300;

#[test]
fn invariants_hold_when_restarted_stations_choose_their_keys_again() {
    let draws = (0..).map(draw);
    let crashing = draws.filter(|text| text.contains("dialect") && text.contains("\"crash\""));
    for text in crashing.take(REPEATED_KEYS) {
        let text = text.replace("kind = \"crash\"", "kind = \"crash\"\nrepeat_keys = true");
        let scenario = parse(&text).expect("a good scenario");
        let held = check_scenario(&scenario, &|engine| engine);
        assert!(held.is_ok(), "{held:?} in {text}");
    }
}
