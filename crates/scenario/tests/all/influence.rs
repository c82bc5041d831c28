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

/// Changes as [`outcome`] takes them.
fn changed(name: &str, changes: &[&str]) -> RunOutcome {
    let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
    outcome(name, &changes)
}

/// Time of a question to so many of 32 hosts, ms, and the work of the last of them for it, ms.
fn question(members: u32, filters: bool) -> (f64, f64) {
    let members = format!("traffic.0.to.members={members}");
    let filters = format!("station.1.chips.filter_groups={filters}");
    let outcome = changed("groups.toml", &[&members, &filters]);
    assert_eq!((outcome.ending, outcome.total.settled), ("complete", 50));
    let exchange = outcome.circuits[0].exchange.as_ref().expect("exchanges");
    let busy: f64 = outcome.stations[32].busy.iter().sum();
    let each_s = outcome.elapsed_s / outcome.circuits[0].offered as f64;
    (exchange.mean_us / 1e3, 1e3 * busy * each_s)
}

#[test]
fn question_to_a_group_is_faster_than_one_to_each_and_a_filter_spares_the_others() {
    let each = |hosts: u32| {
        let messages = format!("traffic.0.messages={hosts}");
        1e3 * changed("single-calls.toml", &[&messages]).elapsed_s
    };
    for hosts in [4, 16] {
        let (time, others) = question(hosts, true);
        let (broadcast, others_broadcast) = question(hosts, false);
        assert!(time < each(hosts), "{hosts}: {time} and {} ms", each(hosts));
        assert!((time / broadcast - 1.0).abs() < 0.01, "the same packets");
        assert_eq!(others, 0.0, "no member is at station 32");
        // It takes each request in: an interrupt and a packet.
        assert!((others_broadcast - 2.5).abs() < 0.01, "{others_broadcast}");
    }
    assert!(question(32, true).1 > 2.5, "every host is a member");
}

#[test]
fn notification_beats_a_time_out_where_packets_are_lost_and_costs_nothing_where_none_are() {
    let cost = |repair: &str, loss: &str| {
        let repair = format!("traffic.0.repair={repair}");
        let loss = format!("faults.loss={loss}");
        let outcome = changed("repair.toml", &[&repair, &loss, "traffic.0.messages=60"]);
        assert_eq!((outcome.ending, outcome.total.settled), ("complete", 60));
        let packets = outcome.stations[0].packets_built as f64 / 60.0;
        (outcome.elapsed_s, packets)
    };
    assert_eq!(cost("notify", "0%"), cost("timeout", "0%"));
    let (notify, timeout) = (cost("notify", "5%"), cost("timeout", "5%"));
    assert!(notify.0 < timeout.0, "{notify:?} {timeout:?}");
    assert!(notify.1 < timeout.1, "{notify:?} {timeout:?}");
}

#[test]
fn copies_of_a_datagram_arrive_more_often_and_cost_as_many_packets() {
    let arrived = |copies: u32| {
        let copies = format!("traffic.0.repeat={copies}");
        let outcome = changed("repetition.toml", &[&copies, "faults.loss=5%"]);
        assert_eq!((outcome.ending, outcome.total.settled), ("complete", 200));
        let packets = outcome.stations[0].packets_built / 200;
        let delays = outcome.circuits[0].receivers[0].delay.as_ref();
        assert!(delays.is_some(), "what arrives has a delay");
        (outcome.total.received, packets)
    };
    let copies = [1, 2, 3].map(arrived);
    // 16 packets of two blocks.
    assert_eq!(copies.map(|(_, packets)| packets), [16, 32, 48]);
    assert!(copies[0].0 < copies[1].0 && copies[1].0 < copies[2].0);
    let whole = changed("repetition.toml", &["traffic.0.repeat=1"]);
    assert_eq!(whole.total.received, 200, "without loss all arrive");
}

#[test]
fn false_answers_about_a_name_fall_with_each_question_as_often_as_a_pair_of_packets_is_lost() {
    let false_share = |name: &str, tries: u32| {
        let tries = format!("traffic.0.tries={tries}");
        let outcome = changed(name, &[&tries, "faults.loss=20%"]);
        outcome.circuits[0].given_up as f64 / outcome.circuits[0].offered as f64
    };
    // A question or its answer is lost: 1 - 0.8^2 on the ether. Through a switch each crosses two links.
    for (name, pair) in [("unique-name.toml", 0.36), ("unique-name-far.toml", 0.59)] {
        for tries in [1, 3] {
            let (ours, wanted) = (false_share(name, tries), f64::powi(pair, tries as i32));
            assert!(
                (ours - wanted).abs() < 0.04,
                "{name}, {tries}: {ours} for {wanted}"
            );
        }
    }
}
