//! Patterns of messages, what waits for processors, and frames with LLC.

use scenario::{RunOutcome, parse, run};

/// Three stations on an Ethernet that send short messages.
fn text(medium: &str, chips: &str, traffic: &str) -> String {
    format!(
        r#"
seed = 3
time_limit = "100 s"
[medium]
{medium}
[[station]]
count = 3
engine = {{ protocol = "bare" }}
{chips}
[[traffic]]
length = {{ fixed = 1000 }}
{traffic}
"#
    )
}

const ETHER: &str = "kind = \"ether10\"";

fn outcome(text: &str) -> RunOutcome {
    let scenario = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let outcome = run(&scenario, &[], scenario.seed, |_| {}).expect("it builds");
    assert_eq!(outcome.ending, "complete", "{text}");
    outcome
}

#[test]
fn stations_are_drawn_by_their_weights() {
    let traffic = |more: &str| {
        format!(
            "from = [0, 1]\nto = [0, 1, 2]\ninterarrival = {{ fixed = \"3 ms\" }}\nmessages = 6000\n{more}"
        )
    };
    let shares = |more: &str| {
        let outcome = outcome(&text(ETHER, "", &traffic(more)));
        let offered = outcome
            .circuits
            .iter()
            .map(|circuit| circuit.offered as f64 / 6000.0);
        offered.collect::<Vec<f64>>()
    };
    // Circuits: 0 to 1 and 2, 1 to 0 and 2.
    let close = |shares: &[f64], wanted: [f64; 4]| {
        let mut both = shares.iter().zip(wanted);
        assert!(
            both.all(|(share, wanted)| (share - wanted).abs() < 0.02),
            "{shares:?}"
        );
    };
    close(&shares(""), [0.25; 4]);
    close(
        &shares("weights = { from = [3, 1] }"),
        [0.375, 0.375, 0.125, 0.125],
    );
    let weighted = shares("weights = { from = [3, 1], to = [1, 2, 4] }");
    close(&weighted, [0.25, 0.5, 0.05, 0.2]);
}

#[test]
fn burst_is_produced_at_once_and_waits_for_the_writer() {
    let traffic = "from = [0]\nto = [1]\ninterarrival = { fixed = \"100 ms\" }\nmessages = 40\n";
    // A message takes 1 ms to copy, in and out.
    let chips = "chips = { copy_delay = \"1 us\" }";
    let alone = outcome(&text(ETHER, chips, traffic));
    assert_eq!(alone.stations[0].writer_max, 1);
    assert_eq!(alone.stations[1].reader_max, 1);
    // The message and its length.
    assert_eq!(alone.stations[1].unread_max_bytes, 1004);
    let burst = outcome(&text(ETHER, chips, &format!("{traffic}burst = 8")));
    assert_eq!(burst.stations[0].writer_max, 8);
    // The reader is as slow as the writer.
    assert!(burst.stations[1].reader_max <= 2, "{burst:?}");
    let last = |outcome: &RunOutcome| outcome.elapsed_s;
    assert!(last(&alone) > 3.9 && last(&burst) < 0.6, "{burst:?}");
    let quick = outcome(&text(ETHER, "", &format!("{traffic}burst = 8")));
    assert!(quick.stations[0].controller_max >= 4, "{quick:?}");
}

#[test]
fn llc_adds_eight_octets_to_a_frame() {
    let traffic = "from = [0]\nto = [1]\ninterarrival = { fixed = \"100 ms\" }\nmessages = 1\n";
    let delay_us = |medium: &str| {
        let outcome = outcome(&text(medium, "", traffic));
        outcome.total.delay.expect("it arrived").mean_us
    };
    let more_us = delay_us("kind = \"ether10\"\nllc = true") - delay_us(ETHER);
    assert!((more_us - 6.4).abs() < 1e-3, "{more_us} us");
    assert_eq!(delay_us("kind = \"ether10\"\nllc = false"), delay_us(ETHER));
    let text = text("kind = \"fddi\"\nllc = true", "", traffic);
    let refusal = parse(&text).expect_err("a ring has none");
    assert!(refusal.contains("llc is for ether10"), "{refusal}");
}

#[test]
fn weights_and_bursts_that_mean_nothing_are_refused() {
    let traffic = "from = [0]\nto = [1, 2]\ninterarrival = { fixed = \"1 ms\" }\nmessages = 10\n";
    for (more, part) in [
        (
            "weights = { from = [1, 2] }",
            "weights.from has 2 numbers for 1 stations",
        ),
        ("weights = { to = [0, 2] }", "use 1 to 1000000"),
        ("burst = 0", "use 1 to 65536"),
    ] {
        let text = text(ETHER, "", &format!("{traffic}{more}"));
        let why = parse(&text).expect_err("it is wrong");
        assert!(why.contains(part), "{more}: {why}");
    }
}
