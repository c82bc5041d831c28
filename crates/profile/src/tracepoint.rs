//! Counters of kernel tracepoints.

use crate::error::ProfileError;
use crate::sys::{Event, EventKind, mount_tracing};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Tracepoints that are counted, and their meaning.
const POINTS: [(&str, &str); 12] = [
    ("raw_syscalls/sys_enter", "system calls"),
    ("sock/sock_send_length", "sends on a socket"),
    ("sock/sock_recv_length", "receives on a socket"),
    ("net/net_dev_queue", "packets given to a device"),
    ("net/netif_receive_skb", "packets taken from a device"),
    ("skb/consume_skb", "packet buffers given back"),
    ("kmem/kmem_cache_alloc", "objects allocated"),
    ("kmem/kmalloc", "memory blocks allocated"),
    ("irq/softirq_entry", "software interrupts"),
    ("sched/sched_waking", "threads woken"),
    ("sched/sched_switch", "times off the processor"),
    ("exceptions/page_fault_user", "page faults"),
];

/// Mount points of tracefs.
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// IDs of the tracepoints that this kernel has and this user may see, by meaning. May be empty.
pub fn tracepoints() -> BTreeMap<&'static str, u64> {
    let found = FOLDERS.iter().map(|folder| numbers(folder));
    let found = found.into_iter().find(|numbers| !numbers.is_empty());
    found.unwrap_or_else(|| {
        // In a thread with its own mount namespace, which ends with the thread.
        let thread = std::thread::spawn(|| {
            mount_tracing(FOLDERS[0]).map_or_else(|_| BTreeMap::new(), |()| numbers(FOLDERS[0]))
        });
        thread.join().unwrap_or_default()
    })
}

fn numbers(folder: &str) -> BTreeMap<&'static str, u64> {
    let number = |point: &str| {
        let path = Path::new(folder).join("events").join(point).join("id");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let all = POINTS.iter();
    all.filter_map(|(point, what)| Some((*what, number(point)?)))
        .collect()
}

/// Tracepoint counters of a process and the threads it starts after [`TracepointCounters::attach`].
#[derive(Debug, Default)]
pub struct TracepointCounters {
    events: Vec<(&'static str, Event)>,
}

impl TracepointCounters {
    /// Opens counters of `process` for the tracepoints; those not permitted are omitted.
    pub fn attach(process: u32, tracepoints: &BTreeMap<&'static str, u64>) -> TracepointCounters {
        let opened = tracepoints.iter().filter_map(|(what, number)| {
            let event = Event::open(EventKind::Tracepoint(*number), process, None);
            Some((*what, event.ok()?))
        });
        TracepointCounters {
            events: opened.collect(),
        }
    }

    /// Starts counting.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn start(&self) -> Result<(), ProfileError> {
        let started = self.events.iter().try_for_each(|(_, event)| event.enable());
        started.map_err(ProfileError::event)
    }

    /// Stops counting; returns the counts.
    pub fn stop(&self) -> BTreeMap<String, u64> {
        let counts = self.events.iter().map(|(what, event)| {
            // The counter of an exited process has stopped, and keeps its count.
            let _ = event.disable();
            ((*what).to_owned(), event.count().unwrap_or(0))
        });
        counts.collect()
    }
}
