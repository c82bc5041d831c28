//! Runs of the study of 1994, held to the figures that its text gives: 3 %, shares two points.

use scenario::sweep::apply_changes;
use scenario::{RunOutcome, run};

/// The outcome of scenario `name` of the study with `changes`.
fn outcome(name: &str, changes: &[String]) -> RunOutcome {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/influence-1994/");
    let text = std::fs::read_to_string(format!("{folder}{name}")).expect("the scenario");
    let scenario = apply_changes(&text, changes).expect("it can be changed");
    run(&scenario, &[], 1, |_| {}).expect("it builds")
}

/// Mbit/s, cells a second and the share of copying while packets with `octets` are sent.
fn send_cost(octets: u64) -> (f64, f64, f64) {
    let outcome = outcome(
        "send-time.toml",
        &[format!("station.0.engine.packet={octets}")],
    );
    let adapter = outcome.stations[0].adapter.expect("an adapter");
    let packets = outcome.stations[0].packets_built as f64 / adapter.send_s;
    let cells = adapter.cells_sent as f64 / adapter.send_s;
    (
        packets * octets as f64 * 8.0 / 1e6,
        cells,
        adapter.copy_s / adapter.send_s,
    )
}

#[test]
fn send_cost_by_length_is_that_of_the_study() {
    let cost: Vec<_> = (68..=1092).map(send_cost).collect();
    let at = |octets: usize| cost[octets - 68];
    for (octets, (mbps, _, share)) in (68..).zip(&cost) {
        assert!(octets == 88 || *mbps < at(88).0, "best at 20 of data");
        let is_worst = octets == 89;
        assert!(is_worst || *mbps > at(89).0, "worst at 21, not {octets}");
        assert!(is_worst || *share > at(89).2, "and least of copying");
    }
    assert!((at(89).2 - 0.4).abs() < 0.02, "{}", at(89).2);
    assert!(at(1092).2 > 0.8 - 0.02, "{}", at(1092).2);
    assert!((at(1092).0 / 80.0 - 1.0).abs() < 0.03, "{}", at(1092).0);
    // Teeth of 44 octets: another cell is almost empty.
    for first in (133..1092).step_by(44) {
        let (before, after) = (at(first - 1), at(first));
        assert!(after.0 < before.0 && after.2 < before.2, "{first}");
        assert!(after.1 > before.1, "cells a second rise with another cell");
    }
}

/// Time of a transaction, ms, transactions a second, and the share of the cable in use.
fn transactions(name: &str, changes: &[&str]) -> (f64, f64, f64) {
    let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
    let outcome = outcome(name, &changes);
    assert_eq!(outcome.ending, "complete");
    let rate = outcome.total.settled as f64 / outcome.elapsed_s;
    let used = outcome.ether.map_or(0.0, |ether| ether.utilisation);
    (1e3 / rate, rate, used)
}

#[test]
fn transaction_takes_15_ms_and_with_16_kib_the_time_of_its_packets_more() {
    let time = |octets| {
        let length = format!("traffic.0.length.fixed={octets}");
        transactions("vmtp.toml", &[&length]).0
    };
    for (octets, given) in [(12, 15.39), (16_384, 29.3)] {
        let ours = time(octets);
        assert!(
            (ours / given - 1.0).abs() < 0.03,
            "{octets} octets: {ours} ms"
        );
    }
    // Nearly linear in size.
    let (first, middle, last) = (time(1024), time(8192), time(16_384));
    let line = first + (last - first) * (8192.0 - 1024.0) / (16_384.0 - 1024.0);
    assert!((middle / line - 1.0).abs() < 0.03, "{middle} for {line}");
}

#[test]
fn one_client_with_16_kib_both_ways_uses_65_percent_and_each_more_adds_less() {
    let used = |clients: u32| {
        let clients = format!("traffic.0.clients={clients}");
        let both = "traffic.0.reply=same";
        transactions(
            "vmtp.toml",
            &["traffic.0.length.fixed=16384", both, &clients],
        )
        .2
    };
    let (one, two) = (used(1), used(2));
    assert!((one - 0.65).abs() < 0.02, "{one}");
    assert!(two > one + 0.1, "{two}");
    // What the study could not run: from there on it stays.
    assert!((used(8) - two).abs() < 0.1);
}

#[test]
fn rate_of_a_host_rises_with_clients_and_flattens_while_that_of_each_falls() {
    let rate = |clients: u32| {
        let clients = format!("traffic.0.clients={clients}");
        transactions("vmtp.toml", &[&clients]).1
    };
    let rates = [1, 2, 4, 8].map(rate);
    assert!(rates[1] > 1.8 * rates[0], "{rates:?}");
    assert!((rates[3] / rates[1] - 1.0).abs() < 0.1, "{rates:?}");
    assert!(rates[1] / 2.0 < rates[0] && rates[3] / 8.0 < rates[2] / 4.0);
}

#[test]
fn repair_of_cells_carries_transactions_over_losses_that_stop_whole_packets() {
    let rate = |repair: &str, loss: &str| {
        let repair = format!("station.0.cells.repair={repair}");
        let loss = format!("faults.loss={loss}");
        let few = "messages=40";
        transactions("vmtp-cells.toml", &[&repair, &loss, few]).1
    };
    let (discard, cells) = (rate("discard", "0.1%"), rate("cells", "0.1%"));
    assert!(cells > 2.0 * discard, "{cells} and {discard} a second");
    let (discard, cells) = (rate("discard", "0%"), rate("cells", "0%"));
    assert!(discard > cells, "without loss, asking costs: {cells}");
}

#[test]
fn cut_through_saves_more_of_a_transaction_on_slow_links() {
    let rate = |rate: &str, octets: &str| {
        let rate = format!("medium.rate={rate}");
        let octets = format!("medium.cut_through={octets}");
        transactions("cut-through.toml", &[&rate, &octets]).1
    };
    let gain = |link: &str| rate(link, "68") / rate(link, "65535");
    let (slow, fast) = (gain("10Mbit/s"), gain("1Gbit/s"));
    assert!(slow > 1.5 && fast > 1.1 && slow > fast, "{slow} {fast}");
}
