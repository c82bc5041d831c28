//! Concurrent circuits: shares, fairness, the delay of each beside the others, and each beside the others against it alone.

use results::metric::{DELAY_P50_US, LEG_NUMBER, LINK_SHARE_FRACTION};
use results::{CellSummary, Summary, Verdict};

/// One line per cell in which several circuits ran concurrently, then one per verdict on a circuit beside others.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let cells = summary.cells.iter().filter_map(cell_line);
    cells
        .chain(summary.beside.iter().map(beside_line))
        .collect()
}

/// `beside others: ▼ throughput at 64 B tcp#1 of tcp+tcp moves 0.52x the messages of tcp alone (0.50 ... 0.54)`.
fn beside_line(verdict: &Verdict) -> String {
    let (_, sign) = crate::verdict_summary::kind(verdict.kind);
    let workload = verdict.contest.workload();
    let sentence = results::phrasing::beside_sentence(verdict);
    format!("beside others: {sign} {workload} {sentence}")
}

fn cell_line(cell: &CellSummary) -> Option<String> {
    let shares = component_values(cell, "share.", |share| format!("{:.0} %", share * 100.0));
    let delays = component_values(cell, &format!("{DELAY_P50_US}."), |us| {
        format!("{us:.1} us")
    });
    let link = component_values(cell, &format!("{LINK_SHARE_FRACTION}."), |share| {
        format!("{:.0} %", share * 100.0)
    });
    let rates = component_values(cell, "messages_per_s@", |rate| format!("{rate:.0}/s"));
    let beside = component_values(cell, "delay_p50_us@", |us| format!("{us:.1} us"));
    let fairness = cell.metrics.get("fairness").map(|value| value.median);
    let hosts = [&rates, &beside].map(Vec::is_empty) != [true, true];
    if shares.is_empty() && delays.is_empty() && fairness.is_none() && !hosts {
        return None;
    }
    let mut parts = Vec::new();
    if shares.len() > 1 {
        parts.push(format!("shares {}", shares.join(", ")));
    }
    if let Some(fairness) = fairness {
        parts.push(format!("fairness {fairness:.2} (Jain; 1 is equal)"));
    }
    if link.len() > 1 {
        parts.push(format!("of the link {}", link.join(", ")));
    }
    if delays.len() > 1 {
        parts.push(format!("median delays {}", delays.join(", ")));
    }
    if hosts {
        let whose = match cell.cell.0.contains_key(results::Cell::FAN_OUT) {
            true => "receiver",
            false => "host",
        };
        let each = [rates, beside].concat().join(", ");
        parts.push(format!("by {whose} {each}"));
    }
    parts.extend(extremes(cell));
    let place = results::phrasing::contest_text(&cell.cell.without(results::Cell::TRANSPORT));
    let what = format!("{} {} {place}", cell.cell.workload(), cell.cell.transport());
    (!parts.is_empty()).then(|| format!("concurrent: {what}: {}", parts.join("; ")))
}

/// The slowest and the fastest of several receivers.
fn extremes(cell: &CellSummary) -> Option<String> {
    let rate = |name: &str| cell.metrics.get(name).map(|rate| rate.median);
    let slowest = rate("slowest_receiver_per_s")?;
    let fastest = rate("fastest_receiver_per_s")?;
    Some(format!(
        "slowest receiver {slowest:.0}/s, fastest {fastest:.0}/s"
    ))
}

/// Metrics of single components or hosts, as "name value"; of a transport whose circuits have numbers, those of each.
fn component_values(cell: &CellSummary, prefix: &str, show: impl Fn(f64) -> String) -> Vec<String> {
    let one = |(name, value): (&String, &results::Estimate)| {
        let transport = name.strip_prefix(prefix)?;
        let is_whole = cell.metrics.contains_key(&format!("{name}{LEG_NUMBER}1"));
        (!is_whole).then(|| format!("{transport} {}", show(value.median)))
    };
    cell.metrics.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{Cell, Estimate};
    use std::collections::BTreeMap;

    #[test]
    fn shared_trial_line_names_share_or_delay_per_component() {
        let estimate = |median| Estimate {
            median,
            low: median,
            high: median,
            n: 5,
        };
        let metrics = |all: &[(&str, f64)]| -> BTreeMap<String, Estimate> {
            all.iter()
                .map(|&(name, value)| (name.to_owned(), estimate(value)))
                .collect()
        };
        let cell = |metrics| CellSummary {
            cell: Cell::default()
                .with("transport", "tcp+udp")
                .with("size", 64u64),
            trials_ok: 5,
            trials_bad: 0,
            metrics,
            evidence: BTreeMap::new(),
            quantiles: BTreeMap::new(),
            samples: BTreeMap::new(),
        };
        let shared = cell(metrics(&[
            ("share.tcp", 0.8),
            ("share.udp", 0.2),
            ("fairness", 0.74),
        ]));
        let said = cell_line(&shared).expect("a line");
        assert!(
            said.contains("shares tcp 80 %, udp 20 %; fairness 0.74"),
            "{said}"
        );
        let equal = cell(metrics(&[
            ("share.tcp", 1.0),
            ("share.tcp#1", 0.7),
            ("share.tcp#2", 0.3),
            ("link_share_fraction.tcp", 0.5),
            ("link_share_fraction.tcp#1", 0.35),
            ("link_share_fraction.tcp#2", 0.15),
        ]));
        let said = cell_line(&equal).expect("a line");
        assert!(
            said.ends_with("shares tcp#1 70 %, tcp#2 30 %; of the link tcp#1 35 %, tcp#2 15 %"),
            "{said}"
        );
        let waited = cell(metrics(&[
            ("delay_p50_us.tcp", 50.0),
            ("delay_p50_us.udp", 40.0),
        ]));
        let said = cell_line(&waited).expect("a line");
        assert!(
            said.contains("median delays tcp 50.0 us, udp 40.0 us"),
            "{said}"
        );
        let hosts = cell(metrics(&[
            ("messages_per_s", 9.0),
            ("messages_per_s@lab1", 5.0),
            ("messages_per_s@lab2:7471", 4.0),
        ]));
        let said = cell_line(&hosts).expect("a line");
        assert!(said.contains("by host lab1 5/s, lab2:7471 4/s"), "{said}");
        assert_eq!(cell_line(&cell(metrics(&[("messages_per_s", 1.0)]))), None);
    }
}
