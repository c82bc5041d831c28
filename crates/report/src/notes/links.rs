//! Counters of the links and loads of a race, one line each; of links side by side, also what each
//! transport sent over each.

use super::{by_transport, counted, evidence};
use results::{RunData, Trial};
use std::collections::BTreeMap;

/// One line per setting of links, with lines for links side by side, and one for the host loads.
pub(super) fn lines(run: &RunData) -> Vec<String> {
    let mut links: BTreeMap<String, Vec<&Trial>> = BTreeMap::new();
    let mut loaded = Vec::new();
    for trial in counted(run) {
        if trial.cpu.contains_key("link") || trial.evidence.contains_key(&octets_key(1)) {
            let link = trial.cell.text("link");
            links.entry(link).or_default().push(trial);
        }
        if trial.cpu.contains_key("load") {
            loaded.push(trial);
        }
    }
    let mut lines = Vec::new();
    for (link, trials) in &links {
        lines.push(
            match trials.iter().any(|trial| trial.cpu.contains_key("link")) {
                true => link_line(link, trials),
                // The kernel's links have no counters of their own.
                false => format!("link {link}"),
            },
        );
        lines.extend(lines_of_each_link(trials));
    }
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

/// Key of the octets that link number `number`, from 1, of several carried.
fn octets_key(number: usize) -> String {
    format!("link_{number}_octets")
}

/// For links side by side, a line a transport and workload: the share of its octets that each link
/// carried, and the frames that each lost. None for a single link.
fn lines_of_each_link(trials: &[&Trial]) -> Vec<String> {
    let is_there = |number: &usize| {
        let key = octets_key(*number);
        trials.iter().any(|trial| trial.evidence.contains_key(&key))
    };
    let links = (1..).take_while(is_there).count();
    if links == 0 {
        return Vec::new();
    }
    let contests = by_transport(trials);
    let lines = contests.iter().map(|(title, trials)| {
        let parts: Vec<String> = shares_of_links(links, trials);
        format!("octets of {title}: {}", parts.join(", "))
    });
    lines.collect()
}

/// `link 1 60 % (3 frames lost)` for each of the links.
fn shares_of_links(links: usize, trials: &[&Trial]) -> Vec<String> {
    let sum = |name: &str| evidence(trials, name).sum::<f64>();
    let all: f64 = (1..=links).map(|number| sum(&octets_key(number))).sum();
    let one = |number: usize| {
        let share = sum(&octets_key(number)) * 100.0 / all.max(1.0);
        let lost = ["lost", "dropped", "cut"].map(|what| sum(&format!("link_{number}_{what}")));
        let lost: f64 = lost.iter().sum();
        match lost > 0.0 {
            true => format!("link {number} {share:.0} % ({lost:.0} frames lost)"),
            false => format!("link {number} {share:.0} %"),
        }
    };
    (1..=links).map(one).collect()
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
