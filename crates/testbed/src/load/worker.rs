//! A process of the artificial workload.
//!
//! It repeats its tasks until end of file on standard input. For each line read there it writes one
//! line: `cpu SECONDS compile COUNT cpu COUNT ...`.

use super::scratch_folder::ScratchFolder;
use super::task::LoadTask;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Completions of each task.
struct TaskCounts(Vec<(LoadTask, AtomicU64)>);

/// Repeats `parts` in a folder of its own until end of file on standard input.
///
/// # Errors
///
/// When no folder can be created, or every task fails.
pub fn main(parts: &[LoadTask]) -> io::Result<()> {
    let folder = ScratchFolder::create()?;
    let counts = parts.iter().map(|&part| (part, AtomicU64::new(0)));
    let counts = Arc::new(TaskCounts(counts.collect()));
    let stop = Arc::new(AtomicBool::new(false));
    let (shared, flag) = (Arc::clone(&counts), Arc::clone(&stop));
    std::thread::spawn(move || {
        answer_queries(&shared);
        flag.store(true, Ordering::Relaxed);
    });
    while !stop.load(Ordering::Relaxed) {
        let mut done = 0;
        for (part, count) in &counts.0 {
            if part.run(folder.path()).is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
                done += 1;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        if done == 0 {
            return Err(io::Error::other("no part of the load can be done here"));
        }
    }
    Ok(())
}

/// Answers queries until end of file.
fn answer_queries(counts: &TaskCounts) {
    for line in io::stdin().lock().lines() {
        if line.is_err() {
            return;
        }
        let mut text = format!("cpu_s {:.3}", cpu_s());
        for (part, count) in &counts.0 {
            text.push_str(&format!(
                " {} {}",
                part.name(),
                count.load(Ordering::Relaxed)
            ));
        }
        let mut out = io::stdout().lock();
        if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

/// CPU time of this process and its children, s.
fn cpu_s() -> f64 {
    let mut ticks = 0.0;
    let mut waiting = vec!["self".to_owned()];
    while let Some(process) = waiting.pop() {
        let read = |name: &str| {
            // One that has just ended is included in its parent's time.
            std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default()
        };
        // Fields 14 to 17 of proc_pid_stat(5), after the name: user and system time of the
        // process, then of its children that have ended, in ticks of 1/100 s.
        let stat = read("stat");
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let own = fields.split_whitespace().skip(11).take(4);
        ticks += own.filter_map(|word| word.parse::<f64>().ok()).sum::<f64>();
        let number = stat.split(' ').next().unwrap_or_default();
        let children = read(&format!("task/{number}/children"));
        waiting.extend(children.split_whitespace().map(str::to_owned));
    }
    ticks / 100.0
}
