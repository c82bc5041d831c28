//! How trials ran, in turns or back to back, and where the scatter of ratios comes from.

use crate::quantity;
use results::{RunData, Status, TURNS_PREFIX, TURNS_SERIES, Trial};

/// One line on how each workload's trials ran, and one on the scatter; none for a run that says
/// nothing of it.
pub(crate) fn lines(run: &RunData) -> Vec<String> {
    let mut lines: Vec<String> = how_they_ran(run).into_iter().collect();
    let spreads = stats::spreads(&run.plan, &run.trials);
    lines.extend(stats::spread::sentence(&spreads));
    lines
}

/// `Trials run: throughput in turns of about 10 ms; offered back to back: ...`.
fn how_they_ran(run: &RunData) -> Option<String> {
    let options = run.plan.options.iter();
    let parts = options.filter_map(|(name, how)| {
        let workload = name.strip_prefix(TURNS_PREFIX)?;
        let [workload, how] = [workload, how].map(|text| quantity::clean(text, 120));
        let planned = how.starts_with("in turns");
        let but = planned.then(|| exceptions(run, &workload));
        Some(format!("{workload} {how}{}", but.unwrap_or_default()))
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("Trials run: {}.", parts.join("; ")))
}

/// How many trials of a workload ran back to back though turns were planned: a turn would have had
/// too few messages. Trials that failed or were stopped say nothing of it.
fn exceptions(run: &RunData, workload: &str) -> String {
    let planned = |trial: &&Trial| {
        trial.block > 0 && trial.status == Status::Ok && trial.cell.workload() == workload
    };
    let own: Vec<&Trial> = run.trials.iter().filter(planned).collect();
    let in_turns = own
        .iter()
        .filter(|trial| trial.evidence.contains_key(TURNS_SERIES));
    match (in_turns.count(), own.len()) {
        (turns, all) if turns == all => String::new(),
        (turns, all) => format!(
            " ({} of {all} trials back to back: too few messages for a turn)",
            all - turns
        ),
    }
}
