//! CPU use of a process.

use crate::kernel_files::KernelFiles;
use rustix::time::{ClockId, clock_gettime};
use std::ops::Sub;

/// CPU time and context switches of a process since its start, summed over its threads.
///
/// The difference of two is the CPU use between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskCpu {
    /// Seconds its threads ran, user and system, to the nanosecond, from the scheduler. On most
    /// kernels this includes interrupts.
    pub task_s: f64,
    /// Seconds in user mode. The kernel splits `task_s` by sampling at its ticks.
    pub user_s: f64,
    /// Seconds in the kernel, split likewise.
    pub system_s: f64,
    /// Voluntary context switches: times a thread blocked.
    pub voluntary_switches: u64,
    /// Involuntary context switches: times a thread was preempted.
    pub involuntary_switches: u64,
}

impl TaskCpu {
    /// CPU use of the calling process. Ended threads count for the times, not for the switches.
    pub fn of_self() -> TaskCpu {
        let mut cpu = read(&KernelFiles::system(), "self");
        // The clock brings the running thread's time up to date; schedstat lags by up to a tick.
        let now = clock_gettime(ClockId::ProcessCPUTime);
        cpu.task_s = now.tv_sec as f64 + now.tv_nsec as f64 / 1e9;
        cpu
    }

    /// CPU use of the calling process's children that have ended and were waited for, and of theirs,
    /// by ticks: `task_s` is the sum of both modes, and switches are not counted.
    pub fn of_ended_children() -> TaskCpu {
        let stat = KernelFiles::system().text("proc/self/stat");
        let ticks = stat
            .as_deref()
            .and_then(|stat| ticks_at(stat, CHILDREN_FIELD));
        let per_s = rustix::param::clock_ticks_per_second() as f64;
        let (user, system) = ticks.unwrap_or_default();
        let (user_s, system_s) = (user as f64 / per_s, system as f64 / per_s);
        TaskCpu {
            task_s: user_s + system_s,
            user_s,
            system_s,
            ..TaskCpu::default()
        }
    }

    /// CPU use of another process; None when there is no such process. `task_s` counts the threads
    /// alive and may lag by a tick (1 to 10 ms) for one that is running.
    pub fn of(pid: u32) -> Option<TaskCpu> {
        let files = KernelFiles::system();
        let name = pid.to_string();
        files
            .exists(&format!("proc/{name}"))
            .then(|| read(&files, &name))
    }
}

impl Sub for TaskCpu {
    type Output = TaskCpu;

    /// The increase since `earlier`. Switches of threads that ended in between are missing, so that
    /// switches may be too few, but never below zero.
    fn sub(self, earlier: TaskCpu) -> TaskCpu {
        TaskCpu {
            task_s: (self.task_s - earlier.task_s).max(0.0),
            user_s: (self.user_s - earlier.user_s).max(0.0),
            system_s: (self.system_s - earlier.system_s).max(0.0),
            voluntary_switches: self
                .voluntary_switches
                .saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
        }
    }
}

impl From<TaskCpu> for results::Cpu {
    fn from(cpu: TaskCpu) -> results::Cpu {
        results::Cpu {
            task_s: cpu.task_s,
            user_s: cpu.user_s,
            system_s: cpu.system_s,
            voluntary_switches: cpu.voluntary_switches,
            involuntary_switches: cpu.involuntary_switches,
        }
    }
}

fn read(files: &KernelFiles, process: &str) -> TaskCpu {
    let mut cpu = TaskCpu::default();
    let stat = files.text(&format!("proc/{process}/stat"));
    if let Some((user, system)) = stat.as_deref().and_then(ticks_of_stat) {
        let per_s = rustix::param::clock_ticks_per_second() as f64;
        cpu.user_s = user as f64 / per_s;
        cpu.system_s = system as f64 / per_s;
    }
    let tasks = format!("proc/{process}/task");
    for thread in files.names(&tasks) {
        let schedstat = files.numbers(&format!("{tasks}/{thread}/schedstat"));
        let ran_ns = schedstat.and_then(|numbers| numbers.first().copied());
        cpu.task_s += ran_ns.unwrap_or(0) as f64 / 1e9;
        let status = files.text(&format!("{tasks}/{thread}/status"));
        let (voluntary, involuntary) = switches_of_status(&status.unwrap_or_default());
        cpu.voluntary_switches += voluntary;
        cpu.involuntary_switches += involuntary;
    }
    cpu
}

/// Fields of /proc/PID/stat behind the name: ticks in user mode and in the kernel, of the process
/// (utime, stime) and of its children that were waited for (cutime, cstime).
const OWN_FIELD: usize = 11;
const CHILDREN_FIELD: usize = 13;

/// Ticks in user mode and in the kernel: fields 14 and 15 of /proc/PID/stat.
fn ticks_of_stat(stat: &str) -> Option<(u64, u64)> {
    ticks_at(stat, OWN_FIELD)
}

/// Two fields of /proc/PID/stat. The name before them may hold blanks and parentheses.
fn ticks_at(stat: &str, field: usize) -> Option<(u64, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(field);
    let user = fields.next()?.parse().ok()?;
    let system = fields.next()?.parse().ok()?;
    Some((user, system))
}

fn switches_of_status(status: &str) -> (u64, u64) {
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
    };
    (
        value("voluntary_ctxt_switches:"),
        value("nonvoluntary_ctxt_switches:"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_name_with_parentheses_is_skipped() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 10 0 0 0 250 125 0 0 20 0 1 0 99";
        assert_eq!(ticks_of_stat(stat), Some((250, 125)));
        assert_eq!(ticks_at(stat, CHILDREN_FIELD), Some((0, 0)));
        assert_eq!(ticks_of_stat("7 (a"), None);
    }

    #[test]
    fn voluntary_and_involuntary_switches_are_separate() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(switches_of_status(status), (3, 4));
    }

    #[test]
    fn cpu_time_and_switches_are_counted() {
        let before = TaskCpu::of_self();
        let mut sum = 0_u64;
        while (TaskCpu::of_self() - before).task_s < 0.005 {
            sum = std::hint::black_box(sum + 1);
        }
        let cost = TaskCpu::of_self() - before;
        assert!(cost.task_s >= 0.005, "{cost:?}");
        // A thread of another test that ends meanwhile takes its switches with it.
        let has_switched = |_| {
            let before = TaskCpu::of_self();
            std::thread::sleep(std::time::Duration::from_millis(1));
            (TaskCpu::of_self() - before).voluntary_switches >= 1
        };
        assert!((0..1000).any(has_switched));
    }

    #[test]
    fn task_cpu_reads_other_process() {
        assert!(TaskCpu::of(std::process::id()).is_some());
        assert_eq!(TaskCpu::of(u32::MAX), None);
    }
}
