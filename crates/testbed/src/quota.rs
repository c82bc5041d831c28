//! CPU quota of a host, by a control group.
//!
//! Supports cgroup v2 (`cpu.max`) and the v1 cpu controller (`cpu.cfs_quota_us`). A group is
//! removed on drop; the next run removes those of killed processes.

use crate::load::scratch_folder;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Prefix of the groups' names.
const PREFIX: &str = "towpath-quota-";

/// Period, us: the default of 100 ms would stop a host for most of that at a time; 10 ms is the
/// finest that costs little.
const PERIOD_US: u64 = 10_000;

/// Attempts to remove a group, as its processes need a moment to end.
const TRIES: u32 = 50;

/// A control group with a quota.
#[derive(Debug)]
pub struct Quota {
    folder: PathBuf,
}

/// A cgroup hierarchy with the cpu controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CgroupTree {
    /// Where it is mounted.
    root: PathBuf,
    /// This process's group in it.
    own: PathBuf,
    unified: bool,
}

impl Quota {
    /// Creates a group with `percent` of one CPU.
    ///
    /// # Errors
    ///
    /// When there are no control groups, or this user may not create any.
    pub fn create(percent: u32) -> io::Result<Quota> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let mut last = io::Error::new(
            io::ErrorKind::NotFound,
            "no control groups for processors are mounted",
        );
        for tree in find_trees(&mounts, &groups) {
            sweep(&tree.root);
            for parent in tree.candidate_parents() {
                match create_group(&tree, &parent, percent) {
                    Ok(quota) => return Ok(quota),
                    Err(error) => last = error,
                }
            }
        }
        Err(last)
    }

    /// Adds a process, with its future children.
    ///
    /// # Errors
    ///
    /// When the process has ended.
    pub fn add_process(&self, process: u32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), process.to_string())
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // On failure the next run removes it.
    }
}

impl CgroupTree {
    /// Groups to create ours in: our own, then its ancestors. In v2 a group with processes cannot
    /// delegate the cpu controller.
    fn candidate_parents(&self) -> Vec<PathBuf> {
        let inside = self.own.strip_prefix("/").unwrap_or(&self.own);
        let mut places: Vec<PathBuf> = inside
            .ancestors()
            .map(|group| self.root.join(group))
            .collect();
        places.dedup();
        places
    }
}

fn create_group(tree: &CgroupTree, parent: &Path, percent: u32) -> io::Result<Quota> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let started = scratch_folder::start_time_of(process).unwrap_or(0);
    if tree.unified {
        // If this fails, writing cpu.max will tell.
        let _ = fs::write(parent.join("cgroup.subtree_control"), "+cpu");
    }
    let folder = parent.join(format!("{PREFIX}{process}-{started}-{count}"));
    fs::create_dir(&folder)?;
    let quota = Quota { folder };
    let us = (u64::from(percent) * PERIOD_US / 100).max(1000);
    if tree.unified {
        write_existing(&quota.folder.join("cpu.max"), &format!("{us} {PERIOD_US}"))?;
    } else {
        write_existing(
            &quota.folder.join("cpu.cfs_period_us"),
            &PERIOD_US.to_string(),
        )?;
        write_existing(&quota.folder.join("cpu.cfs_quota_us"), &us.to_string())?;
    }
    Ok(quota)
}

fn write_existing(path: &Path, text: &str) -> io::Result<()> {
    if !path.exists() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the control groups here divide no processors",
        ));
    }
    fs::write(path, text)
}

/// Hierarchies with the cpu controller, from /proc/self/mounts and /proc/self/cgroup.
fn find_trees(mounts: &str, groups: &str) -> Vec<CgroupTree> {
    let own = |wanted: &dyn Fn(&str) -> bool| {
        let mut lines = groups.lines().map(|line| line.splitn(3, ':'));
        lines.find_map(|mut parts| {
            let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
            wanted(names).then(|| PathBuf::from(path))
        })
    };
    let mut trees = Vec::new();
    for line in mounts.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, root, kind, options, ..] = words[..] else {
            continue;
        };
        let has_cpu = |names: &str| names.split(',').any(|name| name == "cpu");
        let (own, unified) = match kind {
            "cgroup2" => (own(&str::is_empty), true),
            "cgroup" if has_cpu(options) => (own(&has_cpu), false),
            _ => continue,
        };
        trees.extend(own.map(|own| CgroupTree {
            root: PathBuf::from(root),
            own,
            unified,
        }));
    }
    // v1 first: if both are mounted, it has the cpu controller.
    trees.sort_by_key(|tree| tree.unified);
    trees
}

/// Removes groups of processes that have ended, in the root and one level below.
fn sweep(root: &Path) {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).map(|entries| entries.flatten().collect::<Vec<_>>());
        let entries = entries.unwrap_or_default().into_iter();
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect()
    };
    let mut all = below(root);
    let inside: Vec<PathBuf> = all.iter().flat_map(|folder| below(folder)).collect();
    all.extend(inside);
    for path in all {
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| scratch_folder::is_abandoned(name, PREFIX)) {
            // Other users' groups are theirs to remove.
            let _ = fs::remove_dir(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    const OLD: &str = "cgroup /groups/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
                       cgroup /groups/memory cgroup rw,memory 0 0\n\
                       cgroup2 /groups/unified cgroup2 rw 0 0\n";

    #[test]
    fn cgroup_v1_and_v2_trees_found() {
        let found = find_trees(OLD, "3:cpu,cpuacct:/a/b\n2:memory:/m\n0::/u\n");
        assert_eq!(found.len(), 2);
        assert!(!found[0].unified && found[1].unified);
        assert_eq!(found[0].root, PathBuf::from("/groups/cpu,cpuacct"));
        assert_eq!(
            found[0].candidate_parents(),
            [
                "/groups/cpu,cpuacct/a/b",
                "/groups/cpu,cpuacct/a",
                "/groups/cpu,cpuacct/"
            ]
            .map(PathBuf::from)
        );
        assert!(find_trees("proc /proc proc rw 0 0\n", "0::/\n").is_empty());
    }

    #[test]
    fn quota_limits_cpu_time() {
        let quota = match Quota::create(20) {
            Ok(quota) => quota,
            Err(error) => {
                eprintln!("SKIPPED: {error}");
                return;
            }
        };
        let mut command = Command::new("sh");
        command
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null());
        let mut child = command.spawn().expect("a shell");
        quota.add_process(child.id()).expect("it is there");
        let began = Instant::now();
        std::thread::sleep(Duration::from_millis(500));
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
        let most = began.elapsed();
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let fields = stat.rsplit_once(')').expect("a name").1.split_whitespace();
        let ticks: f64 = fields
            .skip(11)
            .take(2)
            .filter_map(|word| word.parse::<f64>().ok())
            .sum();
        // Ticks of 10 ms: a fifth of the time, and tolerance for a period and ticks.
        let allowed = most.as_secs_f64() * 0.2 + 0.04;
        assert!(ticks / 100.0 <= allowed, "{ticks} ticks of {allowed} s");
        let folder = quota.folder.clone();
        drop(quota);
        assert!(!folder.exists());
    }
}
