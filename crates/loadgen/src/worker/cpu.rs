//! CPU affinity, priority and CPU use of a worker.

use control::{CircuitReport, CpuUse};
use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;

/// Sets CPU affinity and nice value.
pub(super) fn pin_and_renice(pin: Option<u32>, priority: Option<i32>) -> Result<(), String> {
    if let Some(cpu) = pin {
        let mut set = CpuSet::new();
        if cpu as usize >= CpuSet::MAX_CPU {
            return Err(format!("there is no CPU {cpu}"));
        }
        set.set(cpu as usize);
        sched_setaffinity(None, &set).map_err(|error| {
            format!("cannot run on CPU {cpu}: {error}; see `nproc` and choose another with --pin")
        })?;
    }
    if let Some(nice) = priority {
        setpriority_process(None::<Pid>, nice).map_err(|error| {
            format!("cannot take priority {nice}: {error}; a value below 0 needs CAP_SYS_NICE")
        })?;
    }
    Ok(())
}

/// CPU use so far.
pub(super) fn used() -> host::TaskCpu {
    host::TaskCpu::of_self()
}

/// CPU use since `before`. Context switches of the measuring threads, which have ended, are in
/// their reports.
pub(super) fn since(before: &host::TaskCpu, reports: &[CircuitReport]) -> CpuUse {
    let used = host::TaskCpu::of_self() - *before;
    let switches = |name: &str| -> u64 {
        reports
            .iter()
            .filter_map(|report| report.counts.get(name))
            .sum()
    };
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    CpuUse {
        task_ns: ns(used.task_s),
        user_ns: ns(used.user_s),
        system_ns: ns(used.system_s),
        voluntary_switches: used.voluntary_switches + switches(VOLUNTARY),
        involuntary_switches: used.involuntary_switches + switches(INVOLUNTARY),
    }
}

/// Name of a count: times the measuring thread slept.
pub(super) const VOLUNTARY: &str = "voluntary_switches";

/// Name of a count: times the measuring thread was preempted.
pub(super) const INVOLUNTARY: &str = "involuntary_switches";

/// Context switches of the calling thread: voluntary, involuntary; zero without /proc.
pub(super) fn thread_switches() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let find = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
    };
    (
        find("voluntary_ctxt_switches:"),
        find("nonvoluntary_ctxt_switches:"),
    )
}

/// Processor, priority and the options of the first circuit, read back.
pub(super) fn effective(reports: &[CircuitReport]) -> BTreeMap<String, String> {
    let mut effective = reports
        .first()
        .map(|report| report.effective.clone())
        .unwrap_or_default();
    if let Ok(set) = sched_getaffinity(None) {
        let cpus: Vec<String> = (0..CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .map(|cpu| cpu.to_string())
            .collect();
        effective.insert("cpus".into(), cpus.join(","));
    }
    if let Ok(nice) = getpriority_process(None) {
        effective.insert("priority".into(), nice.to_string());
    }
    effective
}
