//! Surveys of synthetic trees of files, and of this host.

use super::Survey;
use crate::kernel_files::KernelFiles;
use std::path::PathBuf;

/// A folder with files, removed at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Tree {
        let root = std::env::temp_dir().join(format!("host-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        Tree(root)
    }

    fn survey(&self) -> Survey {
        Survey::of(&KernelFiles::below(&self.0))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A folder left behind does no harm: its name has the process ID.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn laptop_is_recognised() {
    let tree = Tree::new(
        "laptop",
        &[
            (
                "proc/cpuinfo",
                "model name\t: A Laptop\nflags\t\t: fpu tsc\n",
            ),
            ("sys/devices/system/cpu/online", "0-7\n"),
            ("sys/devices/system/cpu/smt/active", "1\n"),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "powersave\n",
            ),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C1\n"),
            (
                "sys/devices/system/cpu/vulnerabilities/a",
                "Mitigation: x\n",
            ),
            ("sys/devices/system/cpu/vulnerabilities/b", "Not affected\n"),
            ("sys/class/power_supply/BAT0/type", "Battery\n"),
            ("sys/class/power_supply/BAT0/status", "Discharging\n"),
        ],
    );
    let cpu = tree.survey().cpu;
    assert_eq!(cpu.model.as_deref(), Some("A Laptop"));
    assert_eq!((cpu.online, cpu.smt), (Some(8), Some(true)));
    assert_eq!(cpu.governor.as_deref(), Some("powersave"));
    assert_eq!((cpu.turbo, cpu.on_battery), (Some(true), Some(true)));
    assert_eq!(cpu.idle_states, ["POLL", "C1"]);
    assert_eq!(cpu.mitigations, ["a"]);
    assert_eq!(cpu.hypervisor, None);
}

#[test]
fn hypervisor_is_found_by_dmi_or_cpu_flag() {
    let board = Tree::new("board", &[("sys/class/dmi/id/sys_vendor", "QEMU\n")]);
    assert_eq!(board.survey().cpu.hypervisor.as_deref(), Some("QEMU"));
    let flag = Tree::new("flag", &[("proc/cpuinfo", "flags : fpu hypervisor\n")]);
    assert_eq!(flag.survey().cpu.hypervisor.as_deref(), Some("unknown"));
}

#[test]
fn tightest_cgroup_quota_applies() {
    let tree = Tree::new(
        "quota",
        &[
            ("proc/self/cgroup", "0::/pod/one\n"),
            ("sys/fs/cgroup/pod/one/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/pod/cpu.max", "150000 100000\n"),
        ],
    );
    assert_eq!(tree.survey().cpu.quota, Some(1.5));
    let old = Tree::new(
        "quota1",
        &[
            ("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/one\n"),
            ("sys/fs/cgroup/cpu,cpuacct/one/cpu.cfs_quota_us", "50000\n"),
            (
                "sys/fs/cgroup/cpu,cpuacct/one/cpu.cfs_period_us",
                "100000\n",
            ),
        ],
    );
    assert_eq!(old.survey().cpu.quota, Some(0.5));
}

#[test]
fn steal_since_boot_is_share_of_all_ticks() {
    let tree = Tree::new(
        "steal",
        &[
            ("proc/stat", "cpu 0\ncpu0 10 0 10 70 0 0 0 10 0 0\n"),
            ("proc/loadavg", "0.5 0.25 0.1 1/2 3\n"),
        ],
    );
    let load = tree.survey().load;
    assert_eq!(load.steal_since_start, Some(0.1));
    assert_eq!(load.averages, Some([0.5, 0.25, 0.1]));
}

#[test]
fn raw_packets_follow_cap_net_raw_bit() {
    let may = |status: &str| {
        let tree = Tree::new("rights", &[("proc/self/status", status)]);
        tree.survey().kernel.raw_packets
    };
    assert_eq!(may("CapEff:\t0000000000002000\n"), Some(true));
    assert_eq!(may("CapEff:\t0000000000001000\n"), Some(false));
    assert_eq!(may("CapEff:\n"), None);
}

#[test]
fn malformed_files_are_ignored() {
    let rubbish = "\u{0}?-: ,\n-1 x\n";
    let tree = Tree::new(
        "rubbish",
        &[
            ("proc/stat", "cpu\ncpux\ncpu0\ncpu99999999999999999999 1\n"),
            ("proc/self/cgroup", rubbish),
            ("proc/cpuinfo", "model name\nflags"),
            ("proc/loadavg", rubbish),
            ("proc/meminfo", "MemTotal: 99999999999999999999 kB"),
            ("proc/net/snmp", "Udp: a\nTcp"),
            ("proc/net/dev", rubbish),
            ("proc/net/softnet_stat", "zz\n"),
            ("proc/sys/net/ipv4/ip_local_port_range", "1 2 3"),
            ("sys/devices/system/cpu/online", "18446744073709551615-0"),
        ],
    );
    let survey = tree.survey();
    assert_eq!(survey.cpu.online, None);
    assert_eq!(survey.network.port_count(), None);
    assert_eq!(survey.kernel.memory_bytes, None);
}

#[test]
fn survey_of_this_host_has_facts() {
    let facts = crate::facts();
    let names: Vec<&str> = facts.iter().map(|fact| fact.name.as_str()).collect();
    for name in [
        "processors",
        "release",
        "cost of a read (median)",
        "towpath",
    ] {
        assert!(names.contains(&name), "no {name} in {names:?}");
    }
    assert!(facts.iter().all(|fact| !fact.value.is_empty()));
}
