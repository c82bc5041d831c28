//! Figures and findings judged on made-up blocks.

use crate::support::{TEXT, outcomes, parse, with_finding};
use study::judge::Outcomes;
use study::judge::exhibit::{self, Standing};
use study::judge::finding::{self, Word};

/// A little noise that both transports of a block share, and some they do not.
fn noise(transport: &str, size: i64, block: u64) -> f64 {
    let own =
        (block * 7 + size as u64 + transport.len() as u64 * u64::from(transport == "udp")) % 5;
    (1.0 + 0.2 * (block % 3) as f64) * (1.0 + 0.01 * own as f64)
}

fn word_of(finding: &str, outcomes: &Outcomes) -> Word {
    let study = with_finding(finding);
    finding::judge(&study, outcomes)
        .pop()
        .expect("a finding")
        .word
}

fn figure(transport: &str, size: i64) -> String {
    format!(
        "{{ run = \"both\", contestant = \"{transport}\", measure = \"rate\", at = {{ size = {size} }} }}"
    )
}

fn curve(transport: &str) -> String {
    format!("{{ run = \"both\", contestant = \"{transport}\", measure = \"rate\" }}")
}

#[test]
fn cells_are_within_beyond_misprinted_or_alone() {
    let study = parse(TEXT).expect("a study");
    // 105, 85, 50 of tcp are printed as 100, 90, 50; udp's are printed as 200, 95.5 and nothing.
    let outcomes = outcomes(3, |transport, size, _| match (transport, size) {
        ("tcp", 64) => 1050.0,
        ("tcp", 1024) => 850.0,
        ("tcp", _) => 500.0,
        ("udp", 64) => 1500.0,
        _ => 900.0,
    });
    let judged = exhibit::judge(&study, &study.spec.exhibit[0], &outcomes);
    let standings = |column: usize| -> Vec<Standing> {
        judged.columns[column]
            .cells
            .iter()
            .map(|cell| cell.standing)
            .collect()
    };
    assert_eq!(standings(0), [Standing::Within; 3]);
    assert_eq!(
        standings(1),
        [Standing::Beyond, Standing::Misprint, Standing::Alone]
    );
    assert_eq!(judged.absent, None);
    assert_eq!(study::json::counts(&study, &[judged], false), [3, 1, 1, 0]);
}

#[test]
fn run_left_out_leaves_printed_figures_and_its_reason() {
    let study = parse(TEXT).expect("a study");
    let outcomes: Outcomes = [("both".to_owned(), Err("no right".to_owned()))].into();
    let judged = exhibit::judge(&study, &study.spec.exhibit[0], &outcomes);
    assert_eq!(judged.absent.as_deref(), Some("no right"));
    let printed = judged.columns[0]
        .cells
        .iter()
        .filter(|cell| cell.paper.is_some());
    assert_eq!(printed.count(), 3);
    let words = finding::judge(&study, &outcomes);
    assert_eq!(words[0].word, Word::NotChecked("no right".to_owned()));
}

#[test]
fn ratio_held_by_less_and_not_held() {
    let race = |factor: f64| {
        outcomes(8, move |transport, size, block| {
            let base = 1000.0 * noise(transport, size, block);
            if transport == "udp" {
                base * factor
            } else {
                base
            }
        })
    };
    let check = format!(
        "ratio = {{ of = {}, to = {}, at_least = 1.5 }}",
        figure("udp", 64),
        figure("tcp", 64)
    );
    assert_eq!(word_of(&check, &race(2.0)), Word::Held);
    assert_eq!(word_of(&check, &race(1.2)), Word::HeldByLess);
    assert_eq!(word_of(&check, &race(0.8)), Word::DidNotHold);
    let Word::NotDecided(blocks) = word_of(&check, &race(1.5)) else {
        panic!("1.5 times is at the bound");
    };
    assert!(blocks.is_none_or(|blocks| blocks > 8), "{blocks:?}");
    let most = format!(
        "ratio = {{ of = {}, to = {}, at_most = 1.5 }}",
        figure("udp", 64),
        figure("tcp", 64)
    );
    assert_eq!(word_of(&most, &race(1.2)), Word::Held);
    assert_eq!(word_of(&most, &race(2.0)), Word::DidNotHold);
}

#[test]
fn order_crossover_and_highest_held_and_not_held() {
    // tcp 1000, 800, 600; udp 400, 820, 1500.
    let falling = outcomes(8, |transport, size, block| {
        let rate = match (transport, size) {
            ("tcp", 64) => 1000.0,
            ("tcp", 1024) => 800.0,
            ("tcp", _) => 600.0,
            (_, 64) => 400.0,
            (_, 1024) => 1200.0,
            _ => 1500.0,
        };
        rate * noise(transport, size, block)
    });
    let order = |sizes: [i64; 3]| {
        let figures = sizes.map(|size| figure("tcp", size)).join(", ");
        format!("order = {{ falling = [{figures}] }}")
    };
    assert_eq!(word_of(&order([64, 1024, 16_384]), &falling), Word::Held);
    assert_eq!(
        word_of(&order([64, 16_384, 1024]), &falling),
        Word::DidNotHold
    );
    let crossing = |of: &str, to: &str| {
        let (of, to) = (curve(of), curve(to));
        format!("crossover = {{ of = {of}, to = {to}, x = \"size\", from = 64, until = 16384 }}")
    };
    assert_eq!(word_of(&crossing("udp", "tcp"), &falling), Word::Held);
    assert_eq!(word_of(&crossing("tcp", "udp"), &falling), Word::DidNotHold);
    let highest = |at: i64| {
        format!(
            "highest = {{ of = {}, x = \"size\", at_x = {at} }}",
            curve("tcp")
        )
    };
    assert_eq!(word_of(&highest(64), &falling), Word::Held);
    assert_eq!(word_of(&highest(1024), &falling), Word::DidNotHold);
    let nowhere = word_of(&highest(99), &falling);
    assert_eq!(
        nowhere,
        Word::NotChecked("its curve has no point at 99".to_owned())
    );
}

#[test]
fn line_of_time_a_message_held_and_bent_one_not_held() {
    let linear = |measure: &str| {
        format!(
            "linear = {{ of = {{ run = \"both\", contestant = \"tcp\", measure = \"{measure}\" }}, \
             x = \"size\", within = \"10 %\" }}"
        )
    };
    let line = outcomes(8, |transport, size, block| {
        noise(transport, size, block) * 1e6 / (5.0 + 0.01 * size as f64)
    });
    assert_eq!(word_of(&linear("1e6 / messages_per_s"), &line), Word::Held);
    assert_eq!(word_of(&linear("messages_per_s"), &line), Word::DidNotHold);
}

#[test]
fn two_blocks_check_nothing() {
    let two = outcomes(2, |_, _, _| 1000.0);
    let check = format!(
        "ratio = {{ of = {}, to = {}, at_least = 1.5 }}",
        figure("udp", 64),
        figure("tcp", 64)
    );
    let word = word_of(&check, &two);
    assert_eq!(
        word,
        Word::NotChecked("2 blocks have both figures; three are needed".to_owned())
    );
}

#[test]
fn deviation_of_a_measure_is_that_of_its_trials() {
    let of_one = TEXT.replacen(
        "measure = \"rate\"",
        "measure = \"deviation.messages_per_s\"",
        1,
    );
    let study = parse(&of_one).expect("a study");
    let ours = |blocks: u64| -> Vec<Option<f64>> {
        // 100, 110, 120, ...: neighbours are 10 apart, at every size.
        let outcomes = outcomes(blocks, |_, _, block| 90.0 + 10.0 * block as f64);
        let judged = exhibit::judge(&study, &study.spec.exhibit[0], &outcomes);
        let cells = judged.columns[0].cells.iter();
        cells.map(|cell| cell.ours).collect()
    };
    assert_eq!(ours(3), [Some(10.0); 3]);
    assert_eq!(ours(1), [None; 3], "one trial has no deviation");
}
