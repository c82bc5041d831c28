//! Checks of processors and clock.

use super::{Check, TestSpec, bad, good, note, warning};
use crate::survey::Survey;
use results::Finding;

pub(super) const CHECKS: &[Check] = &[
    build,
    governor,
    turbo,
    battery,
    processors,
    placement,
    quota,
    virtual_machine,
    idle,
    clock_source,
    clock_cost,
];

fn build(survey: &Survey, _: &TestSpec) -> Option<Finding> {
    if !survey.kernel.debug_build {
        return None;
    }
    bad(
        "this program was built without optimisation",
        "all results are of a slower program, and user-space transports lose most",
        "build with cargo build --release",
    )
}

fn governor(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let governor = survey.cpu.governor.as_deref()?;
    if governor == "performance" {
        return good("the frequency governor is performance");
    }
    let effect = if test.has_delay() {
        "delays include the time the processor takes to speed up; trials differ by how warm it was"
    } else {
        "the first part of a trial runs slower than the rest; trials differ by how warm it was"
    };
    let remedy = "as root: cpupower frequency-set -g performance";
    warning(
        format!("the frequency governor is {governor}"),
        effect,
        remedy,
    )
}

fn turbo(survey: &Survey, _: &TestSpec) -> Option<Finding> {
    if !survey.cpu.turbo? || survey.cpu.hypervisor.is_some() {
        return None;
    }
    note(
        "the processor may exceed its nominal frequency (turbo)",
        "speed depends on heat and on how many cores are busy; blocks are paired, so verdicts hold",
        "for steadier figures, as root: echo 0 > /sys/devices/system/cpu/cpufreq/boost, or \
         echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo",
    )
}

fn battery(survey: &Survey, _: &TestSpec) -> Option<Finding> {
    if !survey.cpu.on_battery? {
        return None;
    }
    warning(
        "the host runs on its battery",
        "the processor is slowed down, more so as the battery empties",
        "plug it in",
    )
}

/// Sender, receiver and the measuring process; softirq work runs on any of them.
const PROCESSORS_WANTED: usize = 3;

fn processors(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let count = survey.cpu.usable.or(survey.cpu.online)?;
    let wanted = PROCESSORS_WANTED + 2 * test.circuits.saturating_sub(1) as usize;
    let remedy = "nothing on this host; compare transports with each other, not with other hosts";
    match count {
        1 => warning(
            "there is one processor for sender and receiver",
            "they share it: throughput is that of half a processor each, and delay is that of \
             switching between processes",
            remedy,
        ),
        _ if count < wanted => note(
            format!(
                "{count} processors are shared by senders, receivers, the kernel's network work \
                 and everything else"
            ),
            "other work shows in the results; busy-polling workers leave no processor for it",
            remedy,
        ),
        _ => good(format!("{count} processors are enough for this test")),
    }
}

fn placement(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let processors = survey.cpu.usable.or(survey.cpu.online)?;
    if test.pinned || processors < 2 {
        return None;
    }
    let nodes = survey.cpu.nodes.unwrap_or(1);
    if nodes > 1 {
        return warning(
            format!("this host has {nodes} NUMA nodes, and workers are not pinned to CPUs"),
            "trials differ by whether sender and receiver happen to be on one node",
            "--pin with two processors of one node (lscpu -e lists them)",
        );
    }
    if !test.has_delay() {
        return None;
    }
    note(
        "sender and receiver are not pinned to CPUs",
        "a round trip on one processor is several times shorter than one between two; the \
         scheduler chooses, and may choose otherwise in the next trial",
        "--pin 0,1 or --pin 0 measures one of the two",
    )
}

fn quota(survey: &Survey, _: &TestSpec) -> Option<Finding> {
    let quota = survey.cpu.quota?;
    warning(
        format!("the control group may use {quota:.2} processors' time"),
        "once it is spent all processes stop until the next period, up to 100 ms",
        "lift the limit (docker: no --cpus; Kubernetes: no CPU limit)",
    )
}

fn virtual_machine(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let hypervisor = survey.cpu.hypervisor.as_deref()?;
    let what = match hypervisor {
        "unknown" => "this is a virtual machine".to_owned(),
        name => format!("this is a virtual machine ({name})"),
    };
    let effect = if test.has_delay() {
        "waking an idle processor goes through the hypervisor, so delays between two processors \
         are longer than on bare metal; the host may migrate virtual CPUs, for seconds at a time"
    } else {
        "the host may migrate virtual CPUs, for seconds at a time"
    };
    let remedy = "trust verdicts, which are paired within blocks, more than single trials";
    note(what, effect, remedy)
}

fn idle(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    if !test.has_delay() || test.busy_poll {
        return None;
    }
    let driver = survey.cpu.idle_driver.as_deref()?;
    let polls = survey.cpu.halt_poll_ns.unwrap_or(0);
    if driver == "haltpoll" && polls == 0 {
        return note(
            "idle processors halt at once (haltpoll with guest_halt_poll_ns = 0)",
            "a blocking delay between two processors includes a wake-up of tens of microseconds",
            "this is what users of this host get; --busy-poll measures without the wake-ups",
        );
    }
    let deepest = survey.cpu.idle_states.last()?;
    if survey.cpu.idle_states.len() < 3 {
        return None;
    }
    note(
        format!("idle processors may sleep as deep as {deepest}"),
        "a blocking delay includes the time to wake up, more after a longer pause",
        "for the least delay, as root: cpupower idle-set -D 2; or --busy-poll",
    )
}

fn clock_source(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let source = survey.clock.source.as_deref()?;
    // These are read through the vDSO, without a system call.
    if [
        "tsc",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "arch_sys_counter",
    ]
    .contains(&source)
    {
        return good(format!("the clock source is {source}"));
    }
    let effect = if test.has_delay() {
        "reading the clock is a system call, and every delay contains it"
    } else {
        "reading the clock is a system call; throughput loops read it rarely, so little changes"
    };
    let remedy = "find out why the kernel gave up tsc (dmesg | grep -i clocksource)";
    if test.has_delay() {
        warning(format!("the clock source is {source}"), effect, remedy)
    } else {
        note(format!("the clock source is {source}"), effect, remedy)
    }
}

/// Cost of a clock read, ns, above which a delay of a few microseconds is noticeably longer.
const CLOCK_READ_NS_MAX: f64 = 100.0;

fn clock_cost(survey: &Survey, test: &TestSpec) -> Option<Finding> {
    let cost = survey.clock.read_ns?;
    if cost <= CLOCK_READ_NS_MAX {
        return good(format!("a clock read costs {cost:.0} ns"));
    }
    let what = format!("a clock read costs {cost:.0} ns");
    let remedy = "use a host whose clock source is tsc";
    if test.has_delay() {
        warning(what, "every delay is longer by that much", remedy)
    } else {
        note(
            what,
            "throughput loops read it once a slice, so little changes",
            remedy,
        )
    }
}
