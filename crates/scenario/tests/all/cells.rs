//! ATM in scenarios: the line's rate, lost cells, priorities, adapters.

use crate::texts;
use scenario::outcome::AdapterRow;
use scenario::{RunOutcome, parse};

/// Senders 0 to 1 and a receiver 2 on lines of cells.
fn text(medium: &str, station: &str, traffic: &str) -> String {
    format!(
        r#"
name = "cells"
time_limit = "60 s"

[medium]
kind = "atm"
delay = "10 us"
{medium}

[[station]]
count = 3
{station}

[[traffic]]
from = [0]
to = [2]
interarrival = {{ fixed = "1 us" }}
outstanding = 64
{traffic}
"#
    )
}

const XTP: &str = r#"engine = { protocol = "xtp", packet = 1400 }
cells = { aal = "aal34" }"#;

const PAGES: &str = "length = { fixed = 4000 }\nmessages = 500";

fn outcome(text: &str) -> RunOutcome {
    texts::outcome(text, 1)
}

fn adapter(outcome: &RunOutcome, station: usize) -> AdapterRow {
    outcome.stations[station].adapter.expect("an adapter")
}

#[test]
fn line_carries_155_megabits_of_cells_a_second() {
    for (aal, cells, len) in [("aal34", 33, 1444), ("aal5", 31, 1480)] {
        // A full packet of `bare`, its header of 24 octets among them, and 8 octets around it fill cells.
        let station = format!(
            "engine = {{ protocol = \"bare\", packet = {len} }}\ncells = {{ aal = \"{aal}\" }}"
        );
        let user = len - 24;
        let traffic = format!("length = {{ fixed = {user} }}\nmessages = 20000");
        let outcome = outcome(&text("", &station, &traffic));
        assert_eq!(
            (outcome.ending, outcome.total.received),
            ("complete", 20_000)
        );
        let most = 155.52e6 / 8.0 * f64::from(user) / f64::from(cells * 53);
        let share = outcome.total.throughput_bps / most;
        assert!((0.97..=1.0).contains(&share), "{aal}: {share} of {most}");
    }
}

#[test]
fn lost_and_damaged_cells_cost_packets_which_xtp_sends_again() {
    let faults = "[faults]\nloss = \"0.1%\"\ncorrupt = \"0.1%\"";
    let outcome = outcome(&text(faults, XTP, PAGES));
    assert_eq!((outcome.ending, outcome.total.received), ("complete", 500));
    let receiver = &outcome.circuits[0].receivers[0];
    assert_eq!((receiver.wrong_bytes, receiver.gaps), (0, 0));
    let again = outcome.stations[0].retransmissions;
    assert!(again > 20, "{again} packets again prove little");
}

#[test]
fn repair_of_cells_sends_fewer_packets_again_than_discarding_them() {
    let with = |repair: &str| {
        let station = format!(
            "engine = {{ protocol = \"xtp\", packet = 1400 }}\n\
             cells = {{ aal = \"aal34\", sar = \"study\", repair = \"{repair}\", mri = \"40 ms\" }}"
        );
        let faults = "[faults]\nloss = \"0.2%\"";
        let outcome = outcome(&text(faults, &station, PAGES));
        assert_eq!((outcome.ending, outcome.total.received), ("complete", 500));
        outcome.stations[0].retransmissions
    };
    let (discard, cells) = (with("discard"), with("cells"));
    assert!(discard > 20 && cells < discard, "{cells} against {discard}");
}

#[test]
fn congested_switch_discards_cells_of_low_priority_first() {
    let low = r#"
[[station]]
engine = { protocol = "bare", packet = 1444 }
cells = { aal = "aal34", low_priority = true }
chips = { adapter = { word = "10 ns" } }

[[traffic]]
from = [3]
to = [2]
interarrival = { fixed = "1 us" }
outstanding = 64
length = { fixed = 1400 }
messages = 3000
"#;
    let medium = "queue = \"64 KiB\"\nlow_priority_queue = \"8 KiB\"";
    // Adapters send at the rate of the line, so that queues grow in the switch alone.
    let station = "engine = { protocol = \"bare\", packet = 1444 }\ncells = { aal = \"aal34\" }\n\
                   chips = { adapter = { word = \"10 ns\" } }";
    let high = text(
        medium,
        station,
        "length = { fixed = 1400 }\nmessages = 3000",
    );
    // Stations of a pattern have the same layer but for the priority of what they send.
    let outcome = outcome(&(high + low));
    let received = |circuit: usize| outcome.circuits[circuit].receivers[0].messages;
    let (high, low) = (received(0), received(1));
    assert!(high == 3000 && low < 2500, "{high} and {low} of 3000");
}

fn with_adapter(own: &str) -> RunOutcome {
    let station = format!("{XTP}\nchips = {{ interrupt = \"5 us\", adapter = {{ {own} }} }}");
    let outcome = outcome(&text("", &station, PAGES));
    assert_eq!((outcome.ending, outcome.total.received), ("complete", 500));
    outcome
}

#[test]
fn slow_processor_overruns_the_receive_queue_of_292_cells() {
    // 14 words of 400 ns a cell, which the line brings every 2.7 us.
    let outcome = with_adapter("word = \"400 ns\"");
    let sender = adapter(&outcome, 0);
    assert_eq!(sender.bus_stalls, 0, "it is slower than the line");
    let station = format!("{XTP}\nchips = {{ adapter = {{ word = \"10 ns\" }} }}");
    let slow = format!("{XTP}\nchips = {{ adapter = {{ word = \"400 ns\" }} }}");
    let both = text("", &station, PAGES).replace("count = 3", "count = 2");
    let (head, traffic) = both.split_once("[[traffic]]").expect("a pattern");
    let both = format!("{head}[[station]]\n{slow}\n\n[[traffic]]{traffic}");
    let outcome = self::outcome(&both);
    assert_eq!(outcome.total.received, 500);
    let receiver = adapter(&outcome, 2);
    assert!(
        receiver.overruns > 100 && receiver.receive_max == 292,
        "{receiver:?}"
    );
}

#[test]
fn fast_processor_is_blocked_by_the_transmit_queue_of_36_cells() {
    let outcome = with_adapter("word = \"10 ns\"");
    let sender = adapter(&outcome, 0);
    assert!(
        sender.bus_stalls > 1000 && sender.stalled > 0.1,
        "{sender:?}"
    );
    assert_eq!(
        sender.bus_errors, 0,
        "a cell leaves every 2.7 us, and the bus waits 10.2 us"
    );
    let errors = adapter(&with_adapter("word = \"10 ns\", stall_max = \"1 us\""), 0).bus_errors;
    assert!(errors > 1000, "{errors}");
}

#[test]
fn interrupts_come_by_count_timer_or_end_of_message_and_not_when_polling() {
    let interrupts = |own: &str| adapter(&with_adapter(own), 2).interrupts;
    assert_eq!(interrupts("word = \"40 ns\""), 0);
    let timer = "word = \"40 ns\", interrupt_timer = \"200 us\"";
    let by_timer = interrupts(timer);
    let by_end = interrupts(&format!("{timer}, interrupt_end = true"));
    let by_count = interrupts(&format!("{timer}, interrupt_count = 16"));
    assert!(by_timer > 50, "{by_timer}");
    assert!(
        by_end > by_timer && by_count > by_timer,
        "{by_end} {by_count} {by_timer}"
    );
    // 1,500 packets of 33 cells and less.
    assert!(by_end < 3000 && by_count < 4000, "{by_end} {by_count}");
}

#[test]
fn transfers_by_the_adapter_take_less_time_than_words() {
    let busy = |own: &str| with_adapter(own).elapsed_s;
    let words = busy("word = \"400 ns\"");
    let burst = busy("access = \"burst\", word = \"200 ns\", setup = \"200 ns\"");
    let gather = busy("access = \"scatter-gather\", setup = \"2 us\"");
    assert!(gather < burst && burst < words, "{gather} {burst} {words}");
}

#[test]
fn same_seed_gives_the_same_outcome() {
    let faults = "[faults]\nloss = \"1%\"";
    let text = text(faults, XTP, PAGES);
    assert_eq!(outcome(&text), outcome(&text));
}

#[test]
fn mistakes_about_cells_are_refused_with_a_remedy() {
    let refused = |text: &str, words: &[&str]| {
        let error = parse(text).map(drop).expect_err(text);
        for word in words {
            assert!(error.contains(word), "{error} lacks {word}");
        }
    };
    let good = text("", XTP, PAGES);
    let change = |from: &str, to: &str| good.replace(from, to);
    refused(
        &change("cells = { aal = \"aal34\" }", ""),
        &["atm", "give the station cells"],
    );
    refused(&change("aal34\"", "aal34\", frame = 2"), &["single cells"]);
    refused(
        &change("aal34\"", "aal5\", sar = \"study\""),
        &["aal5 has no sar"],
    );
    refused(&change("aal34\"", "aal2\""), &["aal2", "aal34"]);
    refused(
        &change("aal34\"", "aal34\", repair = \"cells\""),
        &["1400", "696", "shorter"],
    );
    refused(
        &change("aal34\"", "aal34\", mids = 0"),
        &["MID", "1 to 1024"],
    );
    refused(
        &change("cells =", "layer = \"halves\"\ncells ="),
        &["one layer"],
    );
    let count = format!("{XTP}\nchips = {{ adapter = {{ interrupt_count = 4 }} }}");
    refused(&text("", &count, PAGES), &["for ever", "interrupt_timer"]);
    let ether = change("kind = \"atm\"", "kind = \"switch\"");
    assert!(parse(&ether).is_ok(), "cells travel in frames elsewhere");
    let chips = "chips = { adapter = {} }\nengine";
    refused(
        &ether.replace("engine", chips),
        &["chips.adapter is for medium atm"],
    );
    refused(
        &text("[faults]\nreorder = \"1%\"", XTP, PAGES),
        &["keep order"],
    );
}

/// One sender to five members, whose cells get lost, each on its own.
fn group(medium: &str, cells: &str) -> String {
    format!(
        r#"
name = "a group over cells"
time_limit = "60 s"

[medium]
kind = "{medium}"

[faults]
loss = "0.1%"

[[station]]
engine = {{ protocol = "xtp-group", packet = 1400, members = 5 }}
cells = {{ {cells} }}

[[station]]
count = 5
engine = {{ protocol = "xtp-group", packet = 1400 }}
cells = {{ {cells} }}

[[traffic]]
from = [0]
to = "all"
length = {{ fixed = 4000 }}
interarrival = {{ fixed = "4 ms" }}
messages = 200
"#
    )
}

#[test]
fn members_of_a_group_get_every_byte_through_cells_that_get_lost() {
    for (medium, cells) in [
        ("ether10", r#"aal = "aal34", frame = 4"#),
        ("atm", r#"aal = "aal34""#),
        ("atm", r#"aal = "aal5""#),
    ] {
        let outcome = outcome(&group(medium, cells));
        assert_eq!(outcome.ending, "complete", "{medium} {cells}");
        let receivers = &outcome.circuits[0].receivers;
        assert_eq!(receivers.len(), 5, "{medium}");
        for receiver in receivers {
            let whole = (receiver.messages, receiver.wrong_bytes, receiver.gaps);
            assert_eq!(whole, (200, 0, 0), "{medium} {cells}");
        }
        let again = outcome.stations[0].retransmissions;
        assert!(
            again > 10,
            "{medium} {cells}: {again} packets again prove little"
        );
    }
}
