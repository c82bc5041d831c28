//! Claims with made-up blocks.

use super::*;

fn claims(direction: &[f64], amount: &[f64]) -> Claims {
    let means = |values: &[f64]| Mean::of(values).into_iter().collect();
    Claims {
        direction: means(direction),
        amount: means(amount),
        found: String::new(),
    }
}

#[test]
fn ratio_above_amount_held_and_between_held_by_less() {
    let above = [0.70, 0.72, 0.71, 0.69, 0.70];
    let below: Vec<f64> = above.iter().map(|value| value - 1.0).collect();
    let more: Vec<f64> = above.iter().map(|value| value - 0.4).collect();
    let level = (ALPHA, ALPHA);
    assert_eq!(word(&claims(&above, &more), level), Word::Held);
    assert_eq!(word(&claims(&above, &below), level), Word::HeldByLess);
    assert_eq!(word(&claims(&above, &[]), level), Word::Held);
    assert_eq!(word(&claims(&below, &below), level), Word::DidNotHold);
}

#[test]
fn noise_larger_than_difference_is_not_decided() {
    let noisy = [0.3, -0.2, 0.25, -0.1, 0.05];
    let Word::NotDecided(Some(blocks)) = word(&claims(&noisy, &[]), (ALPHA, ALPHA)) else {
        panic!("these blocks decide nothing");
    };
    assert!((20..200).contains(&blocks), "{blocks}");
    let nothing = [0.3, -0.3, 0.2, -0.2];
    let word = word(&claims(&nothing, &[]), (ALPHA, ALPHA));
    assert_eq!(word, Word::NotDecided(None));
}

#[test]
fn one_refuted_claim_refutes_the_sentence() {
    let mean = |value: f64| Mean::of(&[value, value + 0.01, value - 0.01]).expect("three values");
    let both = Claims {
        direction: vec![mean(0.5), mean(-0.5)],
        ..Claims::default()
    };
    assert_eq!(word(&both, (ALPHA, ALPHA)), Word::DidNotHold);
}

#[test]
fn distance_from_line_is_zero_on_line_and_found_off_it() {
    let line = |x: f64| 5.0 + 0.01 * x;
    let points: Vec<(f64, f64)> = [1.0, 100.0, 500.0, 1000.0].map(|x| (x, line(x))).to_vec();
    assert!(distance(&points, false).expect("a distance") < 1e-9);
    let mut bent = points.clone();
    bent[3].1 *= 1.5;
    assert!(distance(&bent, false).expect("a distance") > 0.05);
    let power: Vec<(f64, f64)> = [1.0, 10.0, 100.0]
        .map(|x: f64| (x, 3.0 * x.powf(0.9)))
        .to_vec();
    assert!(distance(&power, true).expect("a distance") < 1e-9);
    assert!(distance(&power, false).expect("a distance") > 0.02);
}
