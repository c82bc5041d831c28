//! The kernel, this process's privileges and limits, and the build of the program.

use crate::kernel_files::KernelFiles;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_getres};

/// Readings of the kernel and of this process's privileges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel {
    /// Release, e.g. `6.18.1`.
    pub(crate) release: Option<String>,
    /// Machine type, e.g. `x86_64`.
    pub(crate) architecture: Option<String>,
    /// Timer ticks a second.
    pub(crate) tick_hz: Option<u64>,
    /// Preemption model.
    pub(crate) preemption: Option<String>,
    /// Transparent huge page mode.
    pub(crate) huge_pages: Option<String>,
    /// `perf_event_paranoid`: -1 permits everything, 2 only user mode.
    pub(crate) perf_paranoid: Option<i64>,
    /// Total memory, bytes.
    pub(crate) memory_bytes: Option<u64>,
    /// Available memory, bytes.
    pub(crate) memory_free_bytes: Option<u64>,
    /// Files this process may have open.
    pub(crate) files_max: Option<u64>,
    /// The process runs as root.
    pub(crate) root: bool,
    /// The process may open packet sockets.
    pub(crate) raw_packets: Option<bool>,
    /// Kind of container.
    pub(crate) container: Option<String>,
    /// The program was built without optimisation.
    pub(crate) debug_build: bool,
}

impl Kernel {
    pub(crate) fn of(files: &KernelFiles) -> Kernel {
        let memory = files.text("proc/meminfo").unwrap_or_default();
        let uname = files.is_system().then(rustix::system::uname);
        Kernel {
            release: files.line("proc/sys/kernel/osrelease"),
            architecture: uname.map(|uname| uname.machine().to_string_lossy().into_owned()),
            tick_hz: files.is_system().then(tick_hz).flatten(),
            preemption: preemption(files),
            huge_pages: chosen(files.line("sys/kernel/mm/transparent_hugepage/enabled")),
            perf_paranoid: files.number("proc/sys/kernel/perf_event_paranoid"),
            memory_bytes: kib(&memory, "MemTotal:"),
            memory_free_bytes: kib(&memory, "MemAvailable:"),
            files_max: getrlimit(Resource::Nofile).current,
            root: rustix::process::geteuid().is_root(),
            raw_packets: raw_packets(files),
            container: container(files),
            debug_build: cfg!(debug_assertions),
        }
    }
}

/// The coarse clock advances once a tick, so its resolution is the tick length.
fn tick_hz() -> Option<u64> {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    let tick_ns = u64::try_from(tick.tv_nsec).ok()?;
    1_000_000_000_u64.checked_div(tick_ns)
}

fn preemption(files: &KernelFiles) -> Option<String> {
    let version = files.line("proc/sys/kernel/version")?;
    let words = version.split_whitespace();
    words
        .filter(|word| word.starts_with("PREEMPT"))
        .map(str::to_owned)
        .next()
}

/// The word in brackets: `always [madvise] never`.
fn chosen(line: Option<String>) -> Option<String> {
    let line = line?;
    let (_, rest) = line.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn kib(memory: &str, name: &str) -> Option<u64> {
    let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The number of CAP_NET_RAW among the capabilities.
const CAP_NET_RAW: u32 = 13;

fn raw_packets(files: &KernelFiles) -> Option<bool> {
    let status = files.text("proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let capabilities = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(capabilities >> CAP_NET_RAW & 1 == 1)
}

fn container(files: &KernelFiles) -> Option<String> {
    let marks = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
    let mark = marks.iter().find(|(path, _)| files.exists(path));
    if let Some((_, name)) = mark {
        return Some((*name).to_owned());
    }
    let groups = files.text("proc/1/cgroup")?;
    let names = ["kubepods", "docker", "lxc", "containerd"];
    let name = names.iter().find(|name| groups.contains(*name))?;
    Some((*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bracketed_choice_is_parsed() {
        assert_eq!(chosen(Some("a [b] c".into())).as_deref(), Some("b"));
        assert_eq!(chosen(Some("a b".into())), None);
    }

    #[test]
    fn meminfo_is_converted_to_bytes() {
        assert_eq!(kib("MemTotal:  2 kB\n", "MemTotal:"), Some(2048));
        assert_eq!(kib("", "MemTotal:"), None);
    }
}
