//! The processors of the two ends.

use crate::CliError;
use crate::args::RaceArgs;

/// Refuses CPUs that this process may not run on. The error names the CPU, and those there are.
pub(crate) fn check_pins(args: &RaceArgs) -> Result<(), CliError> {
    let own = args.transports.iter();
    let own = own.filter_map(|label| loadgen::contestant::pin(label));
    let asked: Vec<u32> = own
        .chain(args.pin)
        .flat_map(|(sender, receiver)| [sender, receiver])
        .flatten()
        .collect();
    let allowed = allowed_cpus();
    match asked.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => {
            let here: Vec<String> = allowed.iter().map(u32::to_string).collect();
            Err(CliError::usage(format!(
                "there is no CPU {cpu} for this process; choose from {} with --pin",
                here.join(",")
            )))
        }
        None => Ok(()),
    }
}

/// CPUs this process may run on.
pub(crate) fn allowed_cpus() -> Vec<u32> {
    // The affinity of the main thread: others may be in a testbed host with another CPU set.
    let process = rustix::process::getpid();
    let Ok(set) = rustix::thread::sched_getaffinity(Some(process)) else {
        return Vec::new();
    };
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    all.filter(|&cpu| set.is_set(cpu))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect()
}

/// Two CPUs where there are two, so that placement does not vary between trials.
pub(crate) fn default_pins() -> (Option<u32>, Option<u32>) {
    match allowed_cpus()[..] {
        [first, second, ..] => (Some(first), Some(second)),
        _ => (None, None),
    }
}
