//! The ksoftirqd threads, which process packets under load. Their CPU time belongs to the measured
//! traffic, although no process is charged for it.

use crate::kernel_files::KernelFiles;
use std::sync::OnceLock;

/// Nanoseconds these threads ran since boot; None when they are not visible, for example in a
/// container.
pub(crate) fn ran_ns() -> Option<u64> {
    let files = KernelFiles::system();
    let threads = THREADS.get_or_init(|| find(&files));
    let ran = |pid: &String| {
        let numbers = files.numbers(&format!("proc/{pid}/schedstat"))?;
        numbers.first().copied()
    };
    (!threads.is_empty()).then(|| threads.iter().filter_map(ran).sum())
}

/// They live as long as the system, so they are searched for once.
static THREADS: OnceLock<Vec<String>> = OnceLock::new();

/// Process 2 is the parent of all kernel threads.
fn find(files: &KernelFiles) -> Vec<String> {
    let children = files.line("proc/2/task/2/children").unwrap_or_default();
    let is_softirq = |pid: &&str| {
        let name = files.line(&format!("proc/{pid}/comm"));
        name.is_some_and(|name| name.starts_with("ksoftirqd/"))
    };
    let found = children.split_whitespace().filter(is_softirq);
    found.map(str::to_owned).collect()
}
