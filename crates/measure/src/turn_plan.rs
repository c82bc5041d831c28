//! Turns: where contestants can take them, and in which order they do.
//!
//! All contestants of a contest are alive at once and one of them runs at a time, so that all see
//! the same machine. A round has a turn of each contestant, in random order. The times of all turns
//! are fixed before the first one: the workers keep them by the clock of their host.

use crate::environment::Environment;
use crate::spec::{MessageCounts, RaceSpec};
use control::Workload;
use std::collections::BTreeMap;

/// Whether contestants take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnChoice {
    /// Where pausing changes nothing.
    #[default]
    Auto,
    /// In every contest; a race in which they cannot is refused.
    On,
    /// Nowhere: trials run back to back.
    Off,
}

impl TurnChoice {
    /// Its name on the command line and in a plan.
    pub fn name(self) -> &'static str {
        match self {
            TurnChoice::Auto => "auto",
            TurnChoice::On => "on",
            TurnChoice::Off => "off",
        }
    }
}

/// Why contestants cannot take turns in a workload; None where they can.
pub(crate) fn hindrance(
    spec: &RaceSpec,
    workload: Workload,
    environment: &dyn Environment,
) -> Option<String> {
    let contestants = spec.contestants.len() + usize::from(spec.control);
    if contestants < 2 {
        return Some("one contestant alone has nobody to take turns with".into());
    }
    if !spec.fan_out.is_empty() {
        return Some("what a sender has for several receivers would drain in a pause".into());
    }
    if spec.messages != MessageCounts::ByTime {
        return Some("a trial of a fixed number of messages would end amid its turns".into());
    }
    if spec.series {
        return Some("series of a connection (--series) would have gaps".into());
    }
    let is_program = |label: &String| crate::exec::name_of(label).is_some();
    if spec.contestants.iter().any(is_program) {
        return Some("a program of another project runs by itself and does not pause".into());
    }
    let of_workload = match workload {
        Workload::Offered => Some("messages are offered at given times, also during a pause"),
        Workload::Connect => Some("connections end on timers of the system, also during a pause"),
        Workload::Transactions => Some("clients that wait for a server would be cut off"),
        Workload::Send => Some("what copies take is known of a whole trial alone"),
        Workload::Responsive => Some("the queues of the bulk would empty during a pause"),
        Workload::Throughput | Workload::Delay if spec.busy_poll => {
            Some("ends that busy-poll would not rest")
        }
        Workload::Throughput | Workload::Delay => None,
    };
    of_workload
        .map(str::to_owned)
        .or_else(|| environment.pause_hindrance(contestants))
}

/// How the trials of each workload run, by workload: `in turns`, or `back to back` and why.
///
/// # Errors
///
/// The reason, where a race in turns is asked for and its contestants cannot take turns.
pub fn notes(
    spec: &RaceSpec,
    environment: &dyn Environment,
) -> Result<BTreeMap<String, String>, String> {
    let mut notes = BTreeMap::new();
    for name in &spec.workloads {
        let workload = crate::spec::workload_named(name);
        let hindrance = hindrance(spec, workload, environment);
        let how = match (spec.turns, hindrance) {
            (TurnChoice::Off, _) => "back to back: asked for".to_owned(),
            (TurnChoice::On, Some(why)) => return Err(format!("no turns in {name}: {why}")),
            (TurnChoice::Auto, Some(why)) => format!("back to back: {why}"),
            (_, None) => format!("in turns of about {:.0} ms", spec.turn_s * 1e3),
        };
        notes.insert(format!("{}{name}", results::TURNS_PREFIX), how);
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_that_a_pause_would_change_run_back_to_back() {
        let hosts = loadgen::LocalHost::new("towpath".into(), Vec::new());
        let environment: (&dyn loadgen::WorkerHost, &dyn loadgen::WorkerHost) = (&hosts, &hosts);
        let mut spec = RaceSpec::one_block(&["tcp", "udp"], &["throughput", "offered"]);
        spec.turns = TurnChoice::Auto;
        let made = notes(&spec, &environment).expect("a race");
        assert!(made["turns.throughput"].starts_with("in turns"), "{made:?}");
        assert!(made["turns.offered"].starts_with("back to back: "));
        spec.turns = TurnChoice::On;
        let why = notes(&spec, &environment).expect_err("offered load");
        assert!(why.starts_with("no turns in offered: "), "{why}");
        spec.workloads.pop();
        spec.contestants.pop();
        let why = notes(&spec, &environment).expect_err("one contestant");
        assert!(why.contains("one contestant"), "{why}");
    }
}
