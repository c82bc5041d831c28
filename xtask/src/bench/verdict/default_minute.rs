//! What a race without any option decides in its minute.

use super::super::bar::{Bar, BenchTarget};
use super::at_most;
use super::race_result::RaceResult;
use serde_json::Value;
use std::path::Path;

/// Races as `towpath race` does.
pub fn run(program: &Path) -> Result<RaceResult, String> {
    RaceResult::of(program, &[])
}

/// How many of its questions it decided.
pub fn decided(minute: &Result<RaceResult, String>) -> Bar {
    let target = BenchTarget::GoalAtLeast {
        floor: 46.0,
        goal: 54.0,
    };
    bar("verdict-default", "decided", target, minute, |race| {
        let all = race.verdicts("verdicts").iter();
        let all: Vec<&Value> = all.chain(race.verdicts("overall")).collect();
        let open = all.iter().filter(|one| one["kind"] == "not-enough-data");
        let decided = all.len() - open.count();
        (decided as f64, format!("of {} questions", all.len()))
    })
}

/// Half the width of the widest interval of its control.
pub fn control(minute: &Result<RaceResult, String>) -> Bar {
    bar("verdict-aa", "%", at_most(6.0, 3.0), minute, |race| {
        let widths: Vec<f64> = race.verdicts("control").iter().map(half_width).collect();
        let widest = widths.iter().copied().fold(0.0, f64::max);
        let median = stats::estimate::median(&widths);
        let note = format!(
            "widest of {} controls, +- ; median {median:.1} %",
            widths.len()
        );
        (widest, note)
    })
}

/// By how much the ends of an interval lie apart from its middle, on the logarithm's scale, per cent.
fn half_width(verdict: &Value) -> f64 {
    let end = |name: &str| verdict[name].as_f64().unwrap_or(f64::NAN).ln();
    100.0 * (((end("high") - end("low")) / 2.0).exp() - 1.0)
}

fn bar(
    name: &str,
    unit: &'static str,
    target: BenchTarget,
    minute: &Result<RaceResult, String>,
    measure: impl Fn(&RaceResult) -> (f64, String),
) -> Bar {
    let figure = minute.as_ref().map_err(Clone::clone).map(|race| {
        let (value, note) = measure(race);
        let blocks = &race.summary["blocks"];
        (
            value,
            format!("{note}; {blocks} blocks in {:.0} s", race.took_s),
        )
    });
    Bar::of_figure(name, figure, unit, target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn width_of_an_interval_is_relative_to_its_middle() {
        let half = half_width(&json!({ "low": 2.0 / 1.03, "high": 2.0 * 1.03 }));
        assert!((half - 3.0).abs() < 1e-9, "{half}");
    }

    #[test]
    fn open_questions_are_not_decided_and_a_failed_race_has_no_value() {
        let minute = RaceResult {
            summary: json!({
                "verdicts": [{ "kind": "faster" }, { "kind": "not-enough-data" }],
                "overall": [{ "kind": "equal" }],
                "blocks": 3,
            }),
            trials: Vec::new(),
            took_s: 60.0,
        };
        let bar = decided(&Ok(minute));
        assert_eq!(bar.value, Some(2.0));
        assert_eq!(bar.note, "of 3 questions; 3 blocks in 60 s");
        assert_eq!(control(&Err("no program".into())).value, None);
    }
}
