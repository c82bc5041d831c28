//! Counters of the links and loads of a race, one line each.

use results::{RunData, Status, Trial};
use std::collections::BTreeMap;

/// One line per emulated link, and one for the host loads.
pub fn lines(run: &RunData) -> Vec<String> {
    let counted = run
        .trials
        .iter()
        .filter(|trial| trial.status == Status::Ok && trial.block > 0);
    let mut links: BTreeMap<String, Vec<&Trial>> = BTreeMap::new();
    let mut loaded = Vec::new();
    for trial in counted {
        if trial.cpu.contains_key("link") {
            let link = trial.cell.text("link");
            links.entry(link).or_default().push(trial);
        }
        if trial.cpu.contains_key("load") {
            loaded.push(trial);
        }
    }
    let mut lines: Vec<String> = links
        .iter()
        .map(|(link, trials)| link_line(link, trials))
        .collect();
    lines.extend((!loaded.is_empty()).then(|| load_line(&loaded)));
    lines
}

fn link_line(link: &str, trials: &[&Trial]) -> String {
    let sum = |name: &str| evidence(trials, name).sum::<f64>();
    let cores: Vec<f64> = evidence(trials, "link_cores").collect();
    let lags: Vec<f64> = evidence(trials, "link_lag_mean_us").collect();
    let mut parts = vec![format!("{:.0} frames", sum("link_frames"))];
    for (name, what) in [
        ("link_lost", "lost"),
        ("link_dropped", "dropped from full queues"),
        ("link_cut", "lost while cut"),
        ("link_duplicated", "duplicated"),
        ("link_reordered", "reordered"),
        ("link_corrupted", "corrupted"),
        ("link_collisions", "collisions"),
    ] {
        let count = sum(name);
        if count > 0.0 {
            parts.push(format!("{count:.0} {what}"));
        }
    }
    if !cores.is_empty() {
        let median = stats::estimate::median(&cores);
        parts.push(format!("{median:.2} CPUs used"));
    }
    if !lags.is_empty() {
        let median = stats::estimate::median(&lags);
        parts.push(format!("frames delayed by another {median:.1} us"));
    }
    format!("link {link}: {}", parts.join(", "))
}

fn load_line(trials: &[&Trial]) -> String {
    let names: std::collections::BTreeSet<&String> = trials
        .iter()
        .flat_map(|trial| trial.evidence.keys())
        .filter(|name| name.starts_with("load_"))
        .collect();
    let part = |name: &String| {
        let what = name.trim_start_matches("load_").trim_end_matches("_per_s");
        let rates: Vec<f64> = evidence(trials, name).collect();
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        format!("{what} {mean:.1}")
    };
    let parts: Vec<String> = names.into_iter().map(part).collect();
    let cpu_s = |trial: &&Trial| {
        trial
            .cpu
            .get("load")
            .map(|cpu| cpu.task_s / trial.span_s.max(1e-9))
    };
    let cores: Vec<f64> = trials.iter().filter_map(cpu_s).collect();
    format!(
        "host load, mean runs per second: {}; {:.2} CPUs used",
        parts.join(", "),
        stats::estimate::median(&cores)
    )
}

fn evidence<'a>(trials: &'a [&Trial], name: &'a str) -> impl Iterator<Item = f64> + 'a {
    trials
        .iter()
        .filter_map(move |trial| trial.evidence.get(name).copied())
}
