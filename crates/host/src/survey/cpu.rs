//! Processors: number, frequency, idle states, virtualization, quota.

use crate::kernel_files::KernelFiles;
use rustix::thread::sched_getaffinity;

/// Readings of the processors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cpu {
    /// Model name.
    pub(crate) model: Option<String>,
    /// Processors in use by the kernel.
    pub(crate) online: Option<usize>,
    /// Processors this process may run on.
    pub(crate) usable: Option<usize>,
    /// NUMA nodes.
    pub(crate) nodes: Option<usize>,
    /// SMT is active.
    pub(crate) smt: Option<bool>,
    /// Frequency governor; None when the kernel does not control the frequency.
    pub(crate) governor: Option<String>,
    /// Highest frequency the kernel may choose, kHz.
    pub(crate) frequency_max_khz: Option<u64>,
    /// Frequencies above the nominal one are allowed.
    pub(crate) turbo: Option<bool>,
    /// Name of the hypervisor; "unknown" when only its CPU flag is visible.
    pub(crate) hypervisor: Option<String>,
    /// cpuidle driver.
    pub(crate) idle_driver: Option<String>,
    /// cpuidle governor.
    pub(crate) idle_governor: Option<String>,
    /// Names of the idle states, shallow first.
    pub(crate) idle_states: Vec<String>,
    /// Nanoseconds an idle guest polls before it halts.
    pub(crate) halt_poll_ns: Option<u64>,
    /// CPU vulnerabilities that the kernel mitigates, at a cost in system calls.
    pub(crate) mitigations: Vec<String>,
    /// CPU quota of the control group, in processors.
    pub(crate) quota: Option<f64>,
    /// The host runs on a battery.
    pub(crate) on_battery: Option<bool>,
}

const CPUS: &str = "sys/devices/system/cpu";

impl Cpu {
    pub(crate) fn of(files: &KernelFiles) -> Cpu {
        let info = files.text("proc/cpuinfo").unwrap_or_default();
        let in_cpu = |name: &str| format!("{CPUS}/{name}");
        Cpu {
            model: field(&info, "model name").or_else(|| field(&info, "Model")),
            online: files.line(&in_cpu("online")).and_then(|list| count(&list)),
            usable: usable(files),
            nodes: nodes(files),
            smt: files.number::<u8>(&in_cpu("smt/active")).map(|on| on == 1),
            governor: files.line(&in_cpu("cpu0/cpufreq/scaling_governor")),
            frequency_max_khz: files.number(&in_cpu("cpu0/cpufreq/scaling_max_freq")),
            turbo: turbo(files),
            hypervisor: hypervisor(files, &info),
            idle_driver: present(files.line(&in_cpu("cpuidle/current_driver"))),
            idle_governor: present(files.line(&in_cpu("cpuidle/current_governor_ro"))),
            idle_states: idle_states(files),
            halt_poll_ns: files.number("sys/module/haltpoll/parameters/guest_halt_poll_ns"),
            mitigations: mitigations(files),
            quota: quota(files),
            on_battery: on_battery(files),
        }
    }
}

fn present(name: Option<String>) -> Option<String> {
    name.filter(|name| name != "none")
}

fn field(info: &str, name: &str) -> Option<String> {
    let line = info.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// How many numbers a list such as `0-3,5` names.
fn count(list: &str) -> Option<usize> {
    let span = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_add(1)?.checked_sub(first)
    };
    list.split(',').map(|part| span(part.trim())).sum()
}

fn usable(files: &KernelFiles) -> Option<usize> {
    if !files.is_system() {
        return None;
    }
    let set = sched_getaffinity(None).ok()?;
    Some(set.count() as usize)
}

fn nodes(files: &KernelFiles) -> Option<usize> {
    count(&files.line("sys/devices/system/node/online")?)
}

fn turbo(files: &KernelFiles) -> Option<bool> {
    let boost = files.number::<u8>(&format!("{CPUS}/cpufreq/boost"));
    let none = files.number::<u8>(&format!("{CPUS}/intel_pstate/no_turbo"));
    boost
        .map(|on| on == 1)
        .or_else(|| none.map(|none| none == 0))
}

fn hypervisor(files: &KernelFiles, info: &str) -> Option<String> {
    if let Some(kind) = files.line("sys/hypervisor/type") {
        return Some(kind);
    }
    let vendor = files
        .line("sys/class/dmi/id/sys_vendor")
        .unwrap_or_default();
    let product = files.line("sys/class/dmi/id/product_name");
    let board = format!("{vendor} {}", product.unwrap_or_default());
    let known = HYPERVISORS.iter().find(|name| board.contains(*name));
    if let Some(name) = known {
        return Some((*name).to_owned());
    }
    let flags = field(info, "flags").unwrap_or_default();
    let flagged = flags.split_whitespace().any(|flag| flag == "hypervisor");
    let clocks = files.line("sys/devices/system/clocksource/clocksource0/available_clocksource");
    let kvm = clocks.is_some_and(|clocks| clocks.contains("kvm-clock"));
    match (kvm, flagged) {
        (true, _) => Some("KVM".into()),
        (false, true) => Some("unknown".into()),
        (false, false) => None,
    }
}

/// DMI vendor or product names of virtual machines.
const HYPERVISORS: &[&str] = &[
    "QEMU",
    "KVM",
    "VMware",
    "VirtualBox",
    "Xen",
    "Amazon EC2",
    "Google Compute Engine",
    "Virtual Machine",
    "Bochs",
    "Parallels",
    "OpenStack",
];

fn idle_states(files: &KernelFiles) -> Vec<String> {
    let folder = format!("{CPUS}/cpu0/cpuidle");
    let states = files.names(&folder).into_iter();
    let name = |state: String| files.line(&format!("{folder}/{state}/name"));
    states.filter_map(name).collect()
}

fn mitigations(files: &KernelFiles) -> Vec<String> {
    let folder = format!("{CPUS}/vulnerabilities");
    let names = files.names(&folder).into_iter();
    let mitigated = names.filter(|name| {
        let line = files.line(&format!("{folder}/{name}"));
        line.is_some_and(|line| line.starts_with("Mitigation"))
    });
    mitigated.collect()
}

/// The tightest limit from this process's control group up to the root.
fn quota(files: &KernelFiles) -> Option<f64> {
    let groups = files.text("proc/self/cgroup")?;
    let unified = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let cpu = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let named = controllers.split(',').any(|name| name == "cpu");
        named.then_some(path)
    });
    let v2 = unified.into_iter().flat_map(ancestors);
    let v2 = v2.filter_map(|path| quota_v2(files, &path));
    let v1 = cpu.into_iter().flat_map(ancestors);
    let v1 = v1.filter_map(|path| quota_v1(files, &path));
    v2.chain(v1).min_by(f64::total_cmp)
}

/// `/a/b` gives `a/b`, `a` and the root.
fn ancestors(path: &str) -> Vec<String> {
    let path = std::path::Path::new(path.trim_start_matches('/'));
    let ancestors = path.ancestors();
    ancestors
        .map(|path| path.to_string_lossy().into_owned())
        .collect()
}

fn quota_v2(files: &KernelFiles, group: &str) -> Option<f64> {
    let line = files.line(&format!("sys/fs/cgroup/{group}/cpu.max"))?;
    let (quota, period) = line.split_once(' ')?;
    ratio(quota.parse().ok()?, period.parse().ok()?)
}

fn quota_v1(files: &KernelFiles, group: &str) -> Option<f64> {
    let read = |name: &str| {
        let below = |folder: &str| files.number(&format!("sys/fs/cgroup/{folder}/{group}/{name}"));
        below("cpu").or_else(|| below("cpu,cpuacct"))
    };
    ratio(read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?)
}

/// A negative quota means unlimited.
fn ratio(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn on_battery(files: &KernelFiles) -> Option<bool> {
    let folder = "sys/class/power_supply";
    let supplies = files.names(folder);
    let read = |supply: &String, name: &str| files.line(&format!("{folder}/{supply}/{name}"));
    let is = |supply: &String, kind: &str| read(supply, "type").as_deref() == Some(kind);
    let battery = supplies.iter().find(|supply| is(supply, "Battery"))?;
    let status = read(battery, "status")?;
    Some(status == "Discharging")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_list_is_counted() {
        assert_eq!(count("0-3,5"), Some(5));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("3-1"), None);
        assert_eq!(count("x"), None);
    }

    #[test]
    fn cgroup_ancestors_end_at_root() {
        assert_eq!(ancestors("/a/b"), ["a/b", "a", ""]);
        assert_eq!(ancestors("/"), [""]);
    }

    #[test]
    fn negative_quota_means_unlimited() {
        assert_eq!(ratio(-1.0, 100_000.0), None);
        assert_eq!(ratio(150_000.0, 100_000.0), Some(1.5));
    }
}
