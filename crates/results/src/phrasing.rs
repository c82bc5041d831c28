//! Verdicts, contests and amounts as text.

use crate::{Cell, Factor, Verdict, VerdictKind, metric};

/// A verdict as one sentence without a full stop, e.g. `at 64 B unix-stream moves 1.4x the
/// messages of tcp (1.35 ... 1.46); because 0.9 wake-ups a message against 2.1`.
pub fn sentence(verdict: &Verdict) -> String {
    let contest = contest_text(&verdict.contest);
    let contestant = &verdict.contestant;
    let baseline = match verdict.baseline.as_str() {
        same if same == contestant => "itself",
        other => other,
    };
    let (verb, what) = verb_and_object(&verdict.metric);
    let interval = interval(verdict.low, verdict.high);
    match verdict.kind {
        VerdictKind::Faster | VerdictKind::Slower => {
            let ratio = ratio(verdict.ratio, verdict.low, verdict.high);
            let factor = format!("{ratio}x the {what} of {baseline} ({interval})");
            let explanation = explanation_text(verdict);
            format!("{contest} {contestant} {verb} {factor}{explanation}")
        }
        VerdictKind::Equal => {
            let percent = percent(verdict.low, verdict.high);
            let equal = format!("equal within {percent} % in {what} ({interval})");
            format!("{contest} {contestant} and {baseline} are {equal}")
        }
        VerdictKind::NotEnoughData => {
            let known = verdict.high / verdict.low <= INTERVAL_RATIO_MAX;
            let interval = if known {
                format!(" ({interval})")
            } else {
                String::new()
            };
            let more = blocks_text(verdict);
            format!("{contest} {contestant} against {baseline}: not enough data{interval}{more}")
        }
    }
}

/// A verdict on one circuit that ran beside others, as a sentence: `at 64 B tcp#1 of tcp+tcp moves 0.52x the messages of tcp alone (0.50 ... 0.54)`.
pub fn beside_sentence(verdict: &Verdict) -> String {
    let (measure, leg) =
        metric::of_leg(&verdict.metric).unwrap_or((&verdict.metric, &verdict.contestant));
    sentence(&Verdict {
        metric: measure.to_owned(),
        contestant: format!("{leg} of {}", verdict.contestant),
        baseline: format!("{} alone", verdict.baseline),
        ..verdict.clone()
    })
}

fn explanation_text(verdict: &Verdict) -> String {
    match verdict.because.as_str() {
        "" => String::new(),
        because => format!("; because {because}"),
    }
}

/// A contest in a sentence: `at 64 B`, `at 1 KiB with link 10mbit`, `overall`.
pub fn contest_text(contest: &Cell) -> String {
    if contest.0.is_empty() {
        return "overall".to_owned();
    }
    let size = match contest.0.get(Cell::SIZE) {
        Some(Factor::Text(mix)) => format!("at size {mix}"),
        Some(_) => format!("at {}", size_text(contest.size().unwrap_or(0) as f64)),
        None => String::new(),
    };
    let others = contest
        .without(Cell::SIZE)
        .without(Cell::WORKLOAD)
        .without(Cell::TRANSPORT);
    let factors = others.0.iter();
    let factors: Vec<String> = factors
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let with = match factors.as_slice() {
        [] => String::new(),
        some => format!("with {}", some.join(", ")),
    };
    match (size.as_str(), with.as_str()) {
        ("", "") => format!("in {}", contest.workload()),
        ("", only) | (only, "") => only.to_owned(),
        (size, with) => format!("{size} {with}"),
    }
}

/// A size in the largest of B, KiB and MiB that it fills: `64 B`, `1 KiB`, `1.5 MiB`.
pub fn size_text(bytes: f64) -> String {
    const KIB: f64 = 1024.0;
    let (value, unit) = match bytes {
        bytes if bytes >= KIB * KIB => (bytes / KIB / KIB, "MiB"),
        bytes if bytes >= KIB => (bytes / KIB, "KiB"),
        bytes => (bytes, "B"),
    };
    // Whole values have no decimals, others one.
    let text = if value.fract() == 0.0 || value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}").trim_end_matches(".0").to_owned()
    };
    format!("{text} {unit}")
}

/// A value with two significant digits, without an exponent: 0.93, 2.1, 64, 14000, 0.
pub fn amount(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.abs() < 0.001 {
        // What happened a few times is not nothing.
        return "under 0.001".to_owned();
    }
    let digits = 1 - value.abs().log10().floor() as i32;
    let scale = 10f64.powi(digits);
    let rounded = (value * scale).round() / scale;
    if digits <= 0 {
        format!("{value:.0}")
    } else {
        let text = format!("{rounded:.*}", digits as usize);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Intervals wider than this ratio are not printed.
const INTERVAL_RATIO_MAX: f64 = 1000.0;

/// Verb and object of a metric: "moves 1.4x the messages of".
pub fn verb_and_object(name: &str) -> (&'static str, String) {
    let (verb, what) = match name {
        metric::MESSAGES_PER_S => ("moves", "messages"),
        metric::MBIT_PER_S => ("moves", "bits"),
        metric::DELAY_P50_US => ("answers in", "time"),
        metric::DELIVERED_PER_S => ("delivers", "messages"),
        metric::PEAK_PER_S => ("delivers at most", "messages"),
        metric::CONNECTIONS_PER_S => ("makes", "connections"),
        metric::ROUND_TRIPS_PER_MIN => ("answers beside bulk", "short messages"),
        metric::TRANSACTIONS_PER_S => ("completes", "transactions"),
        metric::SENT_PER_S => ("sends", "messages"),
        _ => {
            let label = metric::find(name).map_or(name, |metric| metric.label);
            return ("has", format!("\"{label}\""));
        }
    };
    (verb, what.to_owned())
}

fn blocks_text(verdict: &Verdict) -> String {
    match verdict.blocks_needed {
        Some(blocks) => format!("; about {blocks} blocks would do"),
        None if verdict.pairs < Verdict::PAIRS_MIN => {
            let least = Verdict::PAIRS_MIN;
            format!("; {} of at least {least} blocks", verdict.pairs)
        }
        None => format!("; more than {} blocks would be needed", Verdict::BLOCKS_MAX),
    }
}

/// The smallest whole percentage the interval lies within.
fn percent(low: f64, high: f64) -> u32 {
    let off = (low - 1.0).abs().max((high - 1.0).abs());
    // The margin keeps 1.03 from rounding up to 4 %.
    ((off * 100.0 - 1e-9).ceil() as u32).max(1)
}

/// `1.35 ... 1.46`, with as many decimals as keep the ends apart.
fn interval(low: f64, high: f64) -> String {
    let decimals = match high {
        high if high >= 100.0 => 0,
        high if high >= 10.0 => 1,
        high if high - low < 0.03 => 3,
        _ => 2,
    };
    format!("{low:.decimals$} ... {high:.decimals$}")
}

/// The ratio with two significant digits, more when it would read as 1 or leave its interval.
fn ratio(ratio: f64, low: f64, high: f64) -> String {
    let whole = ratio.max(1e-9).log10().floor() as i32;
    let least = (1 - whole).clamp(0, 6) as usize;
    let texts = (least..=6).map(|decimals| format!("{ratio:.decimals$}"));
    let fits = |text: &String| {
        let value: f64 = text.parse().unwrap_or(ratio);
        value != 1.0 && (low..=high).contains(&value)
    };
    texts
        .clone()
        .find(fits)
        .unwrap_or_else(|| format!("{ratio:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(metric: &str, kind: VerdictKind, ratio: f64, low: f64, high: f64) -> Verdict {
        Verdict {
            contest: Cell::default()
                .with(Cell::SIZE, 64u64)
                .with(Cell::WORKLOAD, "throughput"),
            metric: metric.into(),
            contestant: "unix-stream".into(),
            baseline: "tcp".into(),
            kind,
            ratio,
            low,
            high,
            alpha: 0.01,
            pairs: 5,
            blocks_needed: None,
            because: String::new(),
        }
    }

    #[test]
    fn faster_sentence_with_explanation() {
        let mut faster = verdict("messages_per_s", VerdictKind::Faster, 1.404, 1.35, 1.46);
        faster.because = "0.9 wake-ups a message against 2.1".into();
        assert_eq!(
            sentence(&faster),
            "at 64 B unix-stream moves 1.4x the messages of tcp (1.35 ... 1.46); because 0.9 wake-ups a message against 2.1"
        );
    }

    #[test]
    fn lower_delay_sentence() {
        let faster = verdict("delay_p50_us", VerdictKind::Faster, 0.811, 0.79, 0.83);
        assert_eq!(
            sentence(&faster),
            "at 64 B unix-stream answers in 0.81x the time of tcp (0.79 ... 0.83)"
        );
    }

    #[test]
    fn equal_sentence_names_band() {
        let equal = verdict("messages_per_s", VerdictKind::Equal, 1.001, 0.99, 1.03);
        assert_eq!(
            sentence(&equal),
            "at 64 B unix-stream and tcp are equal within 3 % in messages (0.99 ... 1.03)"
        );
    }

    #[test]
    fn undecided_sentence_names_blocks_needed() {
        let mut open = verdict(
            "messages_per_s",
            VerdictKind::NotEnoughData,
            1.02,
            0.97,
            1.08,
        );
        open.blocks_needed = Some(12);
        assert_eq!(
            sentence(&open),
            "at 64 B unix-stream against tcp: not enough data (0.97 ... 1.08); about 12 blocks would do"
        );
        open.blocks_needed = None;
        assert!(sentence(&open).ends_with("; more than 1000 blocks would be needed"));
        (open.low, open.high, open.pairs) = (1e-6, 1e6, 2);
        assert!(sentence(&open).ends_with("tcp: not enough data; 2 of at least 3 blocks"));
    }

    #[test]
    fn ratio_near_one_keeps_digits() {
        assert_eq!(ratio(1.042, 1.031, 1.055), "1.04");
        assert_eq!(ratio(1.004, 1.002, 1.006), "1.004");
        assert_eq!(ratio(1.45, 1.44, 1.46), "1.45");
        assert_eq!(ratio(12.34, 11.0, 13.0), "12");
        assert_eq!(ratio(0.052, 0.050, 0.054), "0.052");
    }

    #[test]
    fn sizes_in_binary_units() {
        for (bytes, text) in [
            (1.0, "1 B"),
            (1023.0, "1023 B"),
            (1024.0, "1 KiB"),
            (1536.0, "1.5 KiB"),
            (16384.0, "16 KiB"),
            (1048576.0, "1 MiB"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
    }

    #[test]
    fn contest_text_lists_varied_factors() {
        let cell = Cell::default().with(Cell::WORKLOAD, "delay");
        assert_eq!(contest_text(&cell), "in delay");
        let cell = cell.with("host_load", 2u64);
        assert_eq!(contest_text(&cell), "with host_load 2");
        assert_eq!(
            contest_text(&cell.with(Cell::SIZE, 1024u64)),
            "at 1 KiB with host_load 2"
        );
        assert_eq!(contest_text(&Cell::default()), "overall");
    }

    #[test]
    fn amounts_have_two_significant_digits() {
        for (value, text) in [
            (0.934, "0.93"),
            (2.1, "2.1"),
            (64.2, "64"),
            (0.0, "0"),
            (0.0004, "under 0.001"),
            (1.0, "1"),
            (0.098, "0.098"),
            (1448.3, "1448"),
            (9.96, "10"),
        ] {
            assert_eq!(amount(value), text);
        }
    }
}
