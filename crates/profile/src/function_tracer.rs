//! Calls of the kernel's functions by one process, counted by the function tracer.
//!
//! Each process has an instance of the tracer of its own, a folder in tracefs that ends with the value here. Its
//! buffers take the name of each function that the process and its threads enter, and are read once it has stopped:
//! reading beside it would take a processor from what is traced. What did not fit is counted as lost, never guessed.
//!
//! A kernel delivers packets in whatever thread runs, so that calls of an interrupt belong to the thread that it
//! interrupted; what ran in the kernel's own threads is not counted.

use crate::calls::RoutineCalls;
use crate::function_list::FunctionList;
use crate::tracefs::Tracefs;
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Memory of an instance for all processors together, at least and at most for one: a call takes 28 octets.
const BUFFERS_KIB: u64 = 128 << 10;
const BUFFER_KIB_RANGE: (u64, u64) = (1 << 10, 32 << 10);

/// Instances are `towpath-OWN-TRACED`, by processes.
const PREFIX: &str = "towpath-";

/// Why the function tracer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NoFunctionTracer {
    /// There is no tracefs.
    #[error("tracefs is not mounted, and this user cannot mount it: {0}")]
    Tracefs(io::Error),
    /// The kernel was built without.
    #[error("this kernel has no function tracer (CONFIG_FUNCTION_TRACER)")]
    Kernel,
    /// The kernel refuses.
    #[error(
        "the kernel refuses {file} of tracefs: {error}; root may use it, unless the kernel is locked down"
    )]
    Refused {
        /// The file.
        file: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
    /// A pattern of the user's matches nothing.
    #[error(
        "no function of this kernel that can be traced is called {0}; see available_filter_functions of tracefs"
    )]
    Unmatched(String),
}

/// The calls of one process and of the threads and processes it starts. Nothing of it remains once it is dropped.
#[derive(Debug)]
pub struct FunctionTracer {
    instance: PathBuf,
    /// Where the instance is, as long as it is needed.
    _tracefs: Tracefs,
}

impl FunctionTracer {
    /// Sets a tracer up that counts from [`FunctionTracer::start`] on.
    ///
    /// # Errors
    ///
    /// [`NoFunctionTracer`].
    pub fn attach(
        process: u32,
        functions: &FunctionList,
    ) -> Result<FunctionTracer, NoFunctionTracer> {
        let tracefs = Tracefs::open().map_err(NoFunctionTracer::Tracefs)?;
        let tracers = fs::read_to_string(tracefs.path("available_tracers"))
            .map_err(|error| refused("available_tracers", error))?;
        if !tracers.split_whitespace().any(|name| name == "function") {
            return Err(NoFunctionTracer::Kernel);
        }
        remove_those_of_the_dead(&tracefs.path("instances"));
        let name = format!("{PREFIX}{}-{process}", std::process::id());
        let instance = tracefs.path("instances").join(name);
        fs::create_dir(&instance).map_err(|error| refused("instances", error))?;
        let tracer = FunctionTracer {
            instance,
            _tracefs: tracefs,
        };
        tracer.set("tracing_on", "0")?;
        tracer.set("buffer_size_kb", &tracer.buffer_kib().to_string())?;
        // Lines are names of functions and nothing else; what does not fit is counted and lost, not what was first.
        for (option, value) in [
            ("options/overwrite", "0"),
            ("options/context-info", "0"),
            ("options/print-parent", "0"),
            ("options/annotate", "0"),
            ("options/function-fork", "1"),
        ] {
            tracer.set(option, value)?;
        }
        tracer.filter(functions)?;
        tracer.set("set_ftrace_pid", &threads(process))?;
        tracer.set("current_tracer", "function")?;
        Ok(tracer)
    }

    /// Starts counting.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn start(&self) -> Result<(), NoFunctionTracer> {
        self.set("tracing_on", "1")
    }

    /// Stops counting; what was counted, or how much was lost: the rest would be too few calls.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn stop(&self) -> Result<RoutineCalls, NoFunctionTracer> {
        self.set("tracing_on", "0")?;
        let mut counted = RoutineCalls {
            lost: self.lost()?,
            ..RoutineCalls::default()
        };
        if counted.lost > 0 {
            return Ok(counted);
        }
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(self.instance.join("trace_pipe"))
            .map_err(|error| refused("trace_pipe", error))?;
        match count_lines(BufReader::new(pipe), &mut counted.calls) {
            // An empty pipe would block.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                Err(refused("trace_pipe", error))
            }
            _ => Ok(counted),
        }
    }

    /// Calls that did not fit, over all processors.
    fn lost(&self) -> Result<u64, NoFunctionTracer> {
        let folder = self.instance.join("per_cpu");
        let cpus = fs::read_dir(&folder).map_err(|error| refused("per_cpu", error))?;
        cpus.filter_map(Result::ok).try_fold(0, |sum, cpu| {
            let stats = fs::read_to_string(cpu.path().join("stats"));
            let stats = stats.map_err(|error| refused("per_cpu/*/stats", error))?;
            Ok(sum + lost_by(&stats))
        })
    }

    /// Memory for the calls on one processor.
    fn buffer_kib(&self) -> u64 {
        let cpus =
            fs::read_dir(self.instance.join("per_cpu")).map_or(1, |cpus| cpus.count().max(1));
        (BUFFERS_KIB / cpus as u64).clamp(BUFFER_KIB_RANGE.0, BUFFER_KIB_RANGE.1)
    }

    fn filter(&self, functions: &FunctionList) -> Result<(), NoFunctionTracer> {
        const FILE: &str = "set_ftrace_filter";
        let patterns = functions.patterns();
        let mut matched = patterns.is_empty();
        for pattern in patterns {
            match self.append(FILE, pattern) {
                Ok(()) => matched = true,
                Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
                    return Err(refused(FILE, error));
                }
                Err(_) if matches!(functions, FunctionList::Patterns(_)) => {
                    return Err(NoFunctionTracer::Unmatched(pattern.to_owned()));
                }
                Err(_) => {}
            }
        }
        // Without any pattern every function would be traced.
        matched
            .then_some(())
            .ok_or_else(|| NoFunctionTracer::Unmatched(functions.to_string()))
    }

    fn set(&self, file: &'static str, text: &str) -> Result<(), NoFunctionTracer> {
        fs::write(self.instance.join(file), text).map_err(|error| refused(file, error))
    }

    fn append(&self, file: &str, text: &str) -> io::Result<()> {
        let mut open = OpenOptions::new()
            .append(true)
            .open(self.instance.join(file))?;
        open.write_all(format!("{text}\n").as_bytes())
    }
}

impl Drop for FunctionTracer {
    fn drop(&mut self) {
        remove(&self.instance);
    }
}

fn refused(file: &'static str, error: io::Error) -> NoFunctionTracer {
    NoFunctionTracer::Refused { file, error }
}

/// Removes an instance. One that cannot be removed now is removed by the next process that traces.
fn remove(instance: &Path) {
    let _ = fs::write(instance.join("tracing_on"), "0");
    let _ = fs::write(instance.join("current_tracer"), "nop");
    let _ = fs::remove_dir(instance);
}

/// Removes instances that processes left that were killed.
fn remove_those_of_the_dead(instances: &Path) {
    let Ok(all) = fs::read_dir(instances) else {
        return;
    };
    for instance in all.filter_map(Result::ok) {
        let name = instance.file_name();
        if name
            .to_str()
            .and_then(owner)
            .is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists())
        {
            remove(&instance.path());
        }
    }
}

/// The process that made an instance of that name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// The threads of a process, each on a line. Those that it starts later are followed.
fn threads(process: u32) -> String {
    let folder = fs::read_dir(format!("/proc/{process}/task"));
    let names = folder.into_iter().flatten().filter_map(Result::ok);
    let mut lines: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    if lines.is_empty() {
        lines.push(process.to_string());
    }
    lines.join("\n")
}

/// Counts lines by the function that each names.
fn count_lines(mut lines: impl BufRead, calls: &mut BTreeMap<String, u64>) -> io::Result<()> {
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        if let Some(name) = function(&line) {
            match calls.get_mut(name) {
                Some(count) => *count += 1,
                None => {
                    calls.insert(name.to_owned(), 1);
                }
            }
        }
        line.clear();
    }
    Ok(())
}

/// The function that a line names: without its module, without what a compiler appends, and a system call by
/// its name on every architecture. Comments and notes about lost events name none.
fn function(line: &str) -> Option<&str> {
    let name = line.split_whitespace().next()?;
    if name.starts_with('#') || name.starts_with("CPU:") {
        return None;
    }
    let end = [".constprop.", ".isra.", ".llvm."]
        .iter()
        .filter_map(|suffix| name.find(suffix))
        .min();
    let name = &name[..end.unwrap_or(name.len())];
    match name.split_once("_sys_") {
        Some((before, _))
            if matches!(
                before,
                "__x64" | "__ia32" | "__arm64" | "__riscv" | "__s390x" | "__se"
            ) =>
        {
            Some(&name[before.len() + 1..])
        }
        _ => Some(name),
    }
}

/// Events lost, by the statistics of a processor's buffer.
fn lost_by(stats: &str) -> u64 {
    let lines = stats.lines().filter_map(|line| line.split_once(": "));
    lines
        .filter(|(name, _)| matches!(*name, "overrun" | "commit overrun" | "dropped events"))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_functions_without_what_compilers_append() {
        let text = "# tracer: function\n#\ntcp_sendmsg\ntcp_sendmsg\n__x64_sys_sendto\nCPU:1 [LOST 7 EVENTS]\n\
                    __netif_receive_skb_core.constprop.0\nveth_xmit [veth]\ntcp_v4_rcv.part.0\n__sys_sendto\n";
        let mut calls = BTreeMap::new();
        count_lines(text.as_bytes(), &mut calls).expect("lines");
        let names: Vec<(&str, u64)> = calls
            .iter()
            .map(|(name, count)| (name.as_str(), *count))
            .collect();
        let once = [
            "__netif_receive_skb_core",
            "__sys_sendto",
            "sys_sendto",
            "tcp_sendmsg",
            "tcp_v4_rcv.part.0",
            "veth_xmit",
        ];
        let expected: Vec<(&str, u64)> = once
            .iter()
            .map(|name| (*name, 1 + u64::from(*name == "tcp_sendmsg")))
            .collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn lost_events_are_those_of_all_reasons() {
        let stats = "entries: 155\noverrun: 2\ncommit overrun: 3\nbytes: 4360\ndropped events: 40\nread events: 9\n";
        assert_eq!(lost_by(stats), 45);
        assert_eq!(lost_by(""), 0);
    }

    #[test]
    fn instances_name_their_owner() {
        assert_eq!(owner("towpath-12-34"), Some(12));
        assert_eq!(owner("towpath-mine"), None);
        assert_eq!(owner("perf-12-34"), None);
        assert!(threads(std::process::id()).lines().count() >= 1);
    }
}
