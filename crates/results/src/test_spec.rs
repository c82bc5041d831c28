//! What is going to be measured, for the findings that matter for it.

use serde::{Deserialize, Serialize};

/// The planned measurement, as far as findings depend on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestSpec {
    /// Workloads: `throughput`, `delay`, `offered`, `connect`.
    pub workloads: Vec<String>,
    /// Transports, by name.
    pub transports: Vec<String>,
    /// Sender and receiver are each bound to a processor.
    pub pinned: bool,
    /// Both ends busy-poll instead of sleeping.
    pub busy_poll: bool,
    /// Circuits at a time.
    pub circuits: u32,
    /// Requested socket buffers, bytes.
    pub buffers: Option<u64>,
    /// Congestion control that will be set on TCP; empty for the system's.
    pub congestion: String,
}

/// Contestants of a race without arguments.
pub const DEFAULT_CONTESTANTS: [&str; 8] = [
    "tcp",
    "tcp-batched",
    "udp",
    "udp-segmented",
    "unix-stream",
    "quic",
    "xtp",
    "bare",
];

impl Default for TestSpec {
    /// Throughput and delay of the default contestants, as in `towpath race` without arguments.
    fn default() -> TestSpec {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        TestSpec {
            workloads: names(&["throughput", "delay"]),
            transports: names(&DEFAULT_CONTESTANTS),
            pinned: false,
            busy_poll: false,
            circuits: 1,
            buffers: None,
            congestion: "cubic".into(),
        }
    }
}

impl TestSpec {
    /// Whether a workload is among those measured.
    pub fn has(&self, workload: &str) -> bool {
        self.workloads.iter().any(|name| name == workload)
    }

    /// Whether a delay decides a verdict.
    pub fn has_delay(&self) -> bool {
        self.has("delay") || self.has("offered")
    }

    /// Whether a transport whose name starts with `kind` takes part.
    pub fn uses(&self, kind: &str) -> bool {
        self.transports.iter().any(|name| name.starts_with(kind))
    }

    /// Whether datagrams may be sent faster than they are received.
    pub fn floods_udp(&self) -> bool {
        let datagrams = self.uses("udp") || self.uses("bare") || self.uses("quic");
        datagrams && (self.has("throughput") || self.has("offered"))
    }
}
