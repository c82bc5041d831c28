//! CPU quota of a host, by a control group.
//!
//! Supports cgroup v2 (`cpu.max`) and the v1 cpu controller (`cpu.cfs_quota_us`). A group is
//! removed on drop; the next command removes those of killed processes.
//!
//! In v2 the parent group must hand the cpu controller down (`cgroup.subtree_control`). A group whose
//! parent does so only for groups of ours ends in `-cpu`; the last of them takes it back.

use crate::owned_folder::{OwnedFolder, claim_abandoned};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prefix of the groups' names.
const PREFIX: &str = "towpath-quota-";

/// End of the names of groups for whose sake the parent hands the cpu controller down.
const ENABLED: &str = "-cpu";

/// The file that names the controllers handed down.
const SUBTREE_CONTROL: &str = "cgroup.subtree_control";

/// Groups looked at by a sweep: more than a host with a thousand containers has.
const SWEPT_MAX: usize = 20_000;

/// Period, us: the default of 100 ms would stop a host for most of that at a time; 10 ms is the
/// finest that costs little.
const PERIOD_US: u64 = 10_000;

/// Attempts to remove a group, as its processes need a moment to end.
const TRIES: u32 = 50;

/// A control group with a quota.
#[derive(Debug)]
pub struct Quota(OwnedFolder);

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
            sweep_tree(&tree.root);
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
        fs::write(self.0.path().join("cgroup.procs"), process.to_string())
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            if remove_group(self.0.path()).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // On failure the next command removes it.
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
    // Against another process that removes its group meanwhile, and the controller with it.
    let alone = lock_group(parent);
    let is_enabled = tree.unified && enable_cpu(parent);
    let suffix = if is_enabled { ENABLED } else { "" };
    let folder = OwnedFolder::create(parent, PREFIX, suffix).inspect_err(|_| {
        if is_enabled {
            disable_cpu(parent);
        }
    })?;
    drop(alone);
    let quota = Quota(folder);
    let us = (u64::from(percent) * PERIOD_US / 100).max(1000);
    let folder = quota.0.path();
    if tree.unified {
        write_existing(&folder.join("cpu.max"), &format!("{us} {PERIOD_US}"))?;
    } else {
        let period = PERIOD_US.to_string();
        write_existing(&folder.join("cpu.cfs_period_us"), &period)?;
        write_existing(&folder.join("cpu.cfs_quota_us"), &us.to_string())?;
    }
    Ok(quota)
}

/// Locks a group against other processes of ours until the result is dropped; None where the file
/// system has no locks.
fn lock_group(group: &Path) -> Option<File> {
    let folder = File::open(group).ok()?;
    folder.lock().ok().map(|()| folder)
}

/// Makes `parent` hand the cpu controller down; true if it does so only for groups of ours.
fn enable_cpu(parent: &Path) -> bool {
    let control = parent.join(SUBTREE_CONTROL);
    let before = fs::read_to_string(&control).unwrap_or_default();
    if before.split_whitespace().any(|name| name == "cpu") {
        return own_groups(parent).iter().any(|group| is_enabling(group));
    }
    // If this fails, writing cpu.max will tell.
    fs::write(control, "+cpu").is_ok()
}

/// Takes the cpu controller back from groups below `parent`, unless one of ours is left.
fn disable_cpu(parent: &Path) {
    if own_groups(parent).is_empty() {
        // Refused if other groups have begun to use it.
        let _ = fs::write(parent.join(SUBTREE_CONTROL), "-cpu");
    }
}

fn own_groups(parent: &Path) -> Vec<PathBuf> {
    let groups = groups_below(parent).into_iter();
    let is_own = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
    };
    groups.filter(is_own).collect()
}

fn is_enabling(group: &Path) -> bool {
    let name = group.file_name().unwrap_or_default();
    name.as_encoded_bytes().ends_with(ENABLED.as_bytes())
}

/// Removes a group of ours, and takes back what its parent did for it.
fn remove_group(group: &Path) -> io::Result<()> {
    let parent = group.parent().unwrap_or(Path::new("/"));
    let _alone = lock_group(parent);
    fs::remove_dir(group)?;
    if is_enabling(group) {
        disable_cpu(parent);
    }
    Ok(())
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

/// Removes the groups of killed processes, wherever they are.
pub fn sweep() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    for tree in find_trees(&mounts, &groups) {
        sweep_tree(&tree.root);
    }
}

/// Removes the groups of killed processes at any depth below `root`.
fn sweep_tree(root: &Path) {
    let mut left = groups_below(root);
    for _ in 0..SWEPT_MAX {
        let Some(path) = left.pop() else {
            return;
        };
        if let Some(_held) = claim_abandoned(&path, PREFIX) {
            // Refused as long as processes in it have not ended.
            let _ = remove_group(&path);
        } else {
            left.extend(groups_below(&path));
        }
    }
}

/// The groups in a group, by name.
fn groups_below(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
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
        let folder = quota.0.path().to_owned();
        drop(quota);
        assert!(!folder.exists());
    }

    /// A tree of folders with the files of cgroup v2 that matter here.
    fn unified_tree(name: &str) -> CgroupTree {
        let root =
            std::env::temp_dir().join(format!("towpath-groups-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("system.slice/user@1.service/app.slice")).expect("folders");
        CgroupTree {
            root,
            own: PathBuf::from("/system.slice/user@1.service/app.slice"),
            unified: true,
        }
    }

    #[test]
    fn sweep_removes_groups_at_any_depth_and_takes_the_controller_back() {
        let tree = unified_tree("deep");
        let parent = tree.candidate_parents().remove(0);
        let control = parent.join(SUBTREE_CONTROL);
        let abandoned = [
            format!("{PREFIX}1-0{ENABLED}"),
            format!("{PREFIX}1-1{ENABLED}"),
        ];
        for name in &abandoned {
            fs::create_dir(parent.join(name)).expect("a group");
        }
        fs::write(&control, "cpu memory").expect("a file");
        let held = OwnedFolder::create(&parent, PREFIX, ENABLED).expect("a group");
        sweep_tree(&tree.root);
        assert_eq!(own_groups(&parent), [held.path()]);
        assert_eq!(fs::read_to_string(&control).expect("a file"), "cpu memory");
        drop(held);
        sweep_tree(&tree.root);
        assert!(own_groups(&parent).is_empty());
        assert_eq!(fs::read_to_string(&control).expect("a file"), "-cpu");
        fs::remove_dir_all(&tree.root).expect("it is removed");
    }

    #[test]
    fn controller_that_was_handed_down_before_stays() {
        let tree = unified_tree("before");
        let control = tree.root.join(SUBTREE_CONTROL);
        fs::write(&control, "cpu").expect("a file");
        // There is no cpu.max in a plain folder, so the group is removed at once.
        let refused = create_group(&tree, &tree.root, 50);
        assert!(refused.is_err() && own_groups(&tree.root).is_empty());
        assert_eq!(fs::read_to_string(&control).expect("a file"), "cpu");
        fs::write(&control, "memory").expect("a file");
        assert!(create_group(&tree, &tree.root, 50).is_err());
        assert_eq!(fs::read_to_string(&control).expect("a file"), "-cpu");
        fs::remove_dir_all(&tree.root).expect("it is removed");
    }
}
