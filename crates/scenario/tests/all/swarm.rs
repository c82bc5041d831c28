//! Drawn scenarios: the invariants hold, and planted faults are found.

use scenario::swarm::canary::{
    PLANTED_CALL_FAULTS, PLANTED_CALLING_FAULTS, PLANTED_FAULTS, PlantedFault, plant,
};
use scenario::swarm::{
    CALLS_AND_LAYERS, CALLS_OVER_CELLS, CELLS, CLIENTS, DATAGRAMS, SCTP, SCTP_ADDRESSES, SCTP_MTU,
    SCTP_PATHS, SCTP_RESETS, SCTP_STREAMS, SHORTCUTS, Seeds, Tally, VMTP, VMTP_CALLINGS,
    VMTP_RETRIES, XTP_GROUPS, check, check_many, check_with, draw,
};
use std::sync::Mutex;

/// Scenarios, unless TOWPATH_SEEDS gives another number.
const SCENARIOS: u64 = 2000;

/// As [`check_all`], with messages that were given up.
fn check_seeds(first: u64, usual: u64) -> Tally {
    let tally = check_all(first, usual);
    // The scenarios must have closed circuits to prove anything.
    assert!(tally.given_up > tally.scenarios / 10, "{tally:?}");
    tally
}

/// Checks as many seeds from `first` on as TOWPATH_SEEDS says, or `usual`; all of them must hold.
fn check_all(first: u64, usual: u64) -> Tally {
    let wanted = std::env::var("TOWPATH_SEEDS").ok();
    let count = wanted.and_then(|text| text.parse().ok()).unwrap_or(usual);
    let found = Mutex::new(Vec::new());
    let seeds = Seeds {
        first,
        count,
        threads: std::thread::available_parallelism().map_or(2, usize::from),
    };
    let tally = check_many(seeds, &|| true, &|violation| {
        found.lock().expect("nobody panicked").push(violation);
    });
    let violations = found.into_inner().expect("nobody panicked");
    assert!(
        violations.is_empty(),
        "repeat with cargo xtask swarm --seed N: {violations:#?}"
    );
    assert_eq!(tally.scenarios, count);
    // And lost packets.
    assert!(tally.retransmissions > count, "{tally:?}");
    tally
}

#[test]
fn invariants_hold_in_drawn_scenarios() {
    check_seeds(0, SCENARIOS);
}

#[test]
fn invariants_hold_in_drawn_calls_and_layers() {
    check_seeds(CALLS_AND_LAYERS.start, SCENARIOS / 2);
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_sctp() {
    check_seeds(SCTP.start, SCENARIOS / 2);
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_sctp_over_several_paths() {
    check_seeds(SCTP_PATHS.start, SCENARIOS / 2);
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_sctp_whose_addresses_come_and_go() {
    check_seeds(SCTP_ADDRESSES.start, SCENARIOS / 2);
    let changes = |seed| draw(seed).contains("address_changes = ");
    assert!((0..50).all(|step| changes(SCTP_ADDRESSES.start + step)));
    assert!(!(0..50).any(|step| changes(SCTP_PATHS.start + step)));
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_sctp_with_streams_and_lives() {
    check_seeds(SCTP_STREAMS.start, SCENARIOS / 2);
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_sctp_that_probes_narrow_links() {
    check_seeds(SCTP_MTU.start, SCENARIOS / 4);
    let texts: Vec<String> = (SCTP_MTU.start..SCTP_MTU.start + 50).map(draw).collect();
    assert!(
        texts
            .iter()
            .all(|text| text.contains("path_mtu = \"probe\""))
    );
    assert!(texts.iter().any(|text| text.contains("mtu = 1")));
    assert!((0..50).all(|seed| !draw(SCTP.start + seed).contains("mtu")));
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_sctp_with_resets_and_authentication() {
    check_seeds(SCTP_RESETS.start, SCENARIOS / 2);
    let texts: Vec<String> = (SCTP_RESETS.start..SCTP_RESETS.start + 50)
        .map(draw)
        .collect();
    for word in ["reset = ", "auth = true", "streams = 17"] {
        assert!(texts.iter().any(|text| text.contains(word)), "{word}");
    }
}

#[test]
fn invariants_hold_in_drawn_datagrams() {
    let first = DATAGRAMS.start;
    let mut settled = 0;
    for seed in first..first + SCENARIOS / 4 {
        let tally = check(seed);
        let tally = tally.unwrap_or_else(|violation| panic!("{violation:?}: {}", draw(seed)));
        settled += tally.messages;
    }
    assert!(settled > 10_000, "{settled}");
    let texts: Vec<String> = (first..first + 100).map(draw).collect();
    for words in [
        "queue = 1,",
        "packet = 64",
        "checksum = false",
        "corrupt = ",
        "window = ",
        "duplicate = ",
        "reorder = ",
        "kind = \"crash\"",
        "kind = \"partition\"",
    ] {
        assert!(texts.iter().any(|text| text.contains(words)), "{words}");
    }
    let is_udp = |text: &String| text.contains("protocol = \"udp\"");
    assert!(texts.iter().all(is_udp));
    assert!(!(0..200).map(draw).any(|text| is_udp(&text)));
}

#[test]
fn streams_of_sctp_are_drawn_in_their_range_alone() {
    let seeds = SCTP_STREAMS.start..SCTP_STREAMS.start + 100;
    let texts: Vec<String> = seeds.map(draw).collect();
    for words in [
        "streams = 17",
        "interleave = true",
        "unordered = true",
        "life = ",
        "paths = 2",
    ] {
        assert!(texts.iter().any(|text| text.contains(words)), "{words}");
    }
    let others = (0..200).chain([SCTP.start, SCTP_PATHS.start, SCTP_STREAMS.start - 1]);
    assert!(
        others
            .into_iter()
            .all(|seed| !draw(seed).contains("scheduler"))
    );
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_vmtp() {
    check_seeds(VMTP.start, SCENARIOS / 2);
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_cells() {
    check_seeds(CELLS.start, SCENARIOS / 10);
}

#[test]
fn invariants_hold_in_drawn_calls_over_cells() {
    check_seeds(CALLS_OVER_CELLS.start, SCENARIOS / 20);
}

#[test]
fn calls_over_cells_have_all_that_calls_and_cells_have() {
    let first = CALLS_OVER_CELLS.start;
    for words in [
        "\"call\"",
        "kind = \"atm\"",
        "aal = \"aal5\"",
        "sar = \"study\"",
        "repair = \"cells\"",
        "adapter = ",
        "scatter-gather",
        "clients = ",
        "service = ",
        "stream = ",
        "forward = ",
        "group = ",
        "members = ",
    ] {
        let drawn = (first..first + 300).filter(|seed| draw(*seed).contains(words));
        assert!(drawn.count() > 5, "{words}");
    }
    let others = [
        first - 1,
        CALLS_OVER_CELLS.end,
        VMTP_CALLINGS.start,
        CLIENTS.start,
    ];
    for seed in (0..200).chain(others) {
        let text = draw(seed);
        assert!(
            !text.contains("cells = ") && !text.contains("members = "),
            "{text}"
        );
    }
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_clients_and_services() {
    check_seeds(CLIENTS.start, SCENARIOS / 2);
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_streams_forwarding_and_groups() {
    check_seeds(VMTP_CALLINGS.start, SCENARIOS / 2);
}

#[test]
fn streams_forwarding_and_groups_are_drawn_in_their_range_alone() {
    let first = VMTP_CALLINGS.start;
    let words = [
        "stream = ",
        "forward = ",
        "collect = ",
        "replies = ",
        "to = \"all\"",
        "group = ",
    ];
    for word in words {
        let drawn = (first..first + 200).filter(|seed| draw(*seed).contains(word));
        assert!(drawn.count() > 10, "{word}");
    }
    let others = [first - 1, VMTP_CALLINGS.end, VMTP.start, CLIENTS.start];
    for seed in (0..200).chain(others) {
        let text = draw(seed);
        assert!(
            words.iter().all(|word| !text.contains(word)),
            "seed {seed}: {text}"
        );
    }
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_tries_and_repair() {
    check_seeds(VMTP_RETRIES.start, SCENARIOS / 10);
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_xtp_to_groups() {
    // Counted members are waited for: nothing is given up.
    check_all(XTP_GROUPS.start, SCENARIOS / 20);
}

#[test]
fn tries_and_groups_of_xtp_are_drawn_in_their_ranges_alone() {
    let (tries, groups) = (VMTP_RETRIES, XTP_GROUPS);
    for (range, words) in [
        (
            tries,
            &["\ntries = ", "spacing = ", "repair = \"timeout\""][..],
        ),
        (groups, &["\"xtp-group\"", "members = ", "damping = true"]),
    ] {
        for word in words {
            let seeds = range.start..range.start + 200;
            let drawn = seeds.filter(|seed| draw(*seed).contains(word));
            assert!(drawn.count() > 5, "{word}");
            let others = [CLIENTS.start, VMTP_CALLINGS.start, VMTP.start];
            for seed in (0..100).chain(others) {
                assert!(!draw(seed).contains(word), "seed {seed}: {word}");
            }
        }
    }
}

#[test]
fn invariants_hold_in_drawn_scenarios_of_shortcuts() {
    check_seeds(SHORTCUTS.start, SCENARIOS / 4);
}

#[test]
fn shortcuts_are_drawn_in_their_range_alone() {
    let first = SHORTCUTS.start;
    let texts: Vec<String> = (first..first + 40).map(draw).collect();
    for words in [
        "shortcut = true",
        "shortcut = false",
        "kind = \"rings\"",
        "[[host]]",
        "layer",
    ] {
        let count = texts.iter().filter(|text| text.contains(words)).count();
        assert!(count > 2, "{words}: {count} of 40");
    }
    for seed in [0, 1, CELLS.start, first - 1, SHORTCUTS.end] {
        assert!(!draw(seed).contains("shortcut"), "{seed}");
    }
}

#[test]
fn drawn_scenario_is_reproducible() {
    let first = CALLS_AND_LAYERS.start;
    let (sctp, vmtp, paths) = (SCTP.start, VMTP.start, SCTP_PATHS.start);
    let others = [
        sctp,
        vmtp,
        paths,
        paths + 1,
        paths + 2,
        CELLS.start,
        CLIENTS.start,
        VMTP_CALLINGS.start,
        CALLS_OVER_CELLS.start,
        SHORTCUTS.start,
        VMTP_RETRIES.start,
        XTP_GROUPS.start,
    ];
    for seed in [0, 1, 77, u64::MAX, first, first + 1, first + 2]
        .into_iter()
        .chain(others)
    {
        assert_eq!(draw(seed), draw(seed));
        assert_eq!(check(seed), check(seed));
    }
    assert_ne!(draw(1), draw(2));
}

#[test]
fn planted_fault_violates_its_invariant() {
    let circuits = PLANTED_FAULTS.map(|planted| (0, planted));
    let calls = PLANTED_CALL_FAULTS.map(|planted| (CALLS_AND_LAYERS.start, planted));
    let vmtp = PLANTED_CALL_FAULTS.map(|planted| (VMTP.start, planted));
    // What is lost or late is not a fault of datagrams.
    let of_datagrams = PLANTED_FAULTS
        .into_iter()
        .filter(|(fault, _)| matches!(fault, PlantedFault::Damage | PlantedFault::Double));
    let datagrams = of_datagrams.map(|planted| (DATAGRAMS.start, planted));
    let first = VMTP_CALLINGS.start;
    let callings = PLANTED_CALLING_FAULTS.map(|planted| (first, planted));
    let all = circuits
        .into_iter()
        .chain(calls)
        .chain(vmtp)
        .chain(datagrams)
        .chain(callings);
    for (first, (fault, invariants)) in all {
        let found = (0..40).any(|seed| {
            let violation = check_with(first + seed, &|engine| plant(engine, fault)).err();
            violation.is_some_and(|violation| invariants.contains(&violation.invariant))
        });
        assert!(
            found,
            "{fault:?} is not found as {invariants:?} from seed {first} on"
        );
    }
}

#[test]
fn every_version_is_drawn() {
    for words in [
        "dialect = \"3.6\"",
        "dialect = \"3.5\"",
        "dialect = \"3.3\"",
        "routes = true",
    ] {
        assert!((0..200).any(|seed| draw(seed).contains(words)), "{words}");
    }
    let plain = |seed: &u64| {
        let text = draw(*seed);
        text.contains("\"xtp\"") && !text.contains("dialect")
    };
    assert!((0..200).filter(plain).count() > 20, "4.0 is drawn as often");
}

#[test]
fn sctp_is_drawn_in_its_range_alone() {
    assert!((SCTP.start..SCTP.start + 50).all(|seed| draw(seed).contains("\"sctp\"")));
    let others = (0..200).chain([SCTP.start - 1, SCTP.end]);
    assert!(others.into_iter().all(|seed| !draw(seed).contains("sctp")));
}

#[test]
fn several_paths_are_drawn_in_their_range_alone() {
    let seeds = SCTP_PATHS.start..SCTP_PATHS.start + 100;
    for words in [
        "paths = 2",
        "paths = 3",
        "paths = 4",
        "\npath = 1",
        "\"crash\"",
        "\"flap\"",
    ] {
        let drawn = seeds.clone().filter(|seed| draw(*seed).contains(words));
        assert!(drawn.count() > 10, "{words}");
    }
    let others = (0..200).chain([SCTP.start, SCTP_PATHS.start - 1, SCTP_PATHS.end]);
    assert!(others.into_iter().all(|seed| !draw(seed).contains("path")));
}

#[test]
fn calls_and_layers_are_drawn_in_their_range_alone() {
    let first = CALLS_AND_LAYERS.start;
    for words in [
        "\"call\"",
        "layer = \"halves\"",
        "\"xtp\"",
        "\"bare\"",
        "reply = \"same\"",
    ] {
        let drawn = (first..first + 200).filter(|seed| draw(*seed).contains(words));
        assert!(drawn.count() > 10, "{words}");
    }
    let neither = |seed| !draw(seed).contains("call") && !draw(seed).contains("layer");
    assert!(
        (0..200)
            .chain([first - 1, CALLS_AND_LAYERS.end])
            .all(neither)
    );
}

#[test]
fn clients_and_services_are_drawn_in_their_range_alone() {
    let first = CLIENTS.start;
    for words in [
        "\"call\"",
        "\"vmtp\"",
        "clients = ",
        "service = ",
        "reply = \"40000 B\"",
    ] {
        let drawn = (first..first + 200).filter(|seed| draw(*seed).contains(words));
        assert!(drawn.count() > 10, "{words}");
    }
    let neither = |seed| !draw(seed).contains("clients") && !draw(seed).contains("service");
    let others = [first - 1, CLIENTS.end, VMTP.start, CALLS_AND_LAYERS.start];
    assert!((0..200).chain(others).all(neither));
}
