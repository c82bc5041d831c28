//! Checks of background load, on this host and of its hypervisor.

use super::{Check, TestSpec, bad, good, note, warning};
use crate::disturbance::{BACKGROUND_CORES_MAX, STEAL_MAX};
use crate::survey::Survey;
use results::Finding;

pub(super) const CHECKS: &[Check] = &[background_load, steal_now, steal_before, memory];

fn background_load(survey: &Survey, _: &TestSpec) -> Option<Finding> {
    let cores = survey.load.background_cores?;
    if cores <= BACKGROUND_CORES_MAX {
        return good(format!("other work keeps {cores:.2} processors busy"));
    }
    let what = format!("other work keeps {cores:.1} processors busy");
    let effect = "it competes with sender and receiver; trials it disturbs are flagged";
    let remedy = "stop it (top shows what it is), or wait until it has ended";
    let processors = survey.cpu.usable.or(survey.cpu.online).unwrap_or(1) as f64;
    if cores > processors / 2.0 {
        bad(what, effect, remedy)
    } else {
        warning(what, effect, remedy)
    }
}

fn steal_now(survey: &Survey, _: &TestSpec) -> Option<Finding> {
    let steal = survey.load.steal_now?;
    if steal <= STEAL_MAX {
        return None;
    }
    warning(
        format!(
            "the hypervisor takes {:.1} % of the processors' time",
            steal * 100.0
        ),
        "trials it disturbs are flagged, and intervals grow",
        "wait, or use a host with processors of its own",
    )
}

/// Share of steal since boot above which the host is considered overcommitted.
const STEAL_BEFORE_MAX: f64 = 0.01;

fn steal_before(survey: &Survey, _: &TestSpec) -> Option<Finding> {
    let steal = survey.load.steal_since_start?;
    survey.cpu.hypervisor.as_ref()?;
    let what = format!(
        "the hypervisor took {:.2} % of the processors' time since boot",
        steal * 100.0
    );
    if steal <= STEAL_BEFORE_MAX {
        return good(what);
    }
    note(
        what,
        "other virtual machines on the host are busy at times; run more blocks",
        "use a host with processors of its own",
    )
}

/// Ample memory for two workers with their buffers and histograms, bytes.
const MEMORY_WANTED: u64 = 512 << 20;

fn memory(survey: &Survey, _: &TestSpec) -> Option<Finding> {
    let free = survey.kernel.memory_free_bytes?;
    if free >= MEMORY_WANTED {
        return None;
    }
    warning(
        format!("{} MiB of memory are available", free >> 20),
        "swapping would stop a worker in the middle of a trial",
        "close other programs",
    )
}
