//! Resource caps of an agent, and how they limit a job.

use crate::{Job, LoadJob, Rate, Role, Workload};
use serde::{Deserialize, Serialize};

/// Most components of a job.
const COMPONENTS_MAX: usize = 8;

/// Most octets of a component's label: a name and a dozen options.
const COMPONENT_TEXT_MAX: usize = 256;

/// Most octets of a congestion control's name (TCP_CA_NAME_MAX).
const CONGESTION_MAX: usize = 16;

/// Most packets of one batched call.
const BATCH_MAX: u64 = 1024;

/// Largest accepted path delay: 10 s, several times that of a path to the moon.
const PATH_DELAY_MAX_NS: u64 = 10_000_000_000;

/// What the set-up of a trial takes at most of the time of a load that runs beside it, ns.
const LOAD_SETUP_NS: u64 = 30_000_000_000;

/// Most slices of a trial; the loops keep 4096.
const SLICES_MAX: u64 = 100_000;

/// Error of a circuit whose byte allowance is used up.
pub const QUOTA_EXCEEDED: &str = "the session has moved all of the bytes that the agent allows; start another, or \
                         raise --max-bytes there";

/// Octets of the stamp at the start of each open-loop message: its number and send time.
pub const STAMP_LEN: usize = 16;

/// A worker's part of the session's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerQuota {
    /// User bytes, both directions counted.
    pub bytes: u64,
    /// Bytes a second it may send; None for no limit.
    pub pace_bytes_per_s: Option<u64>,
}

/// What a client may request. The agent announces it in its Hello and enforces it: a request beyond
/// it is refused with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps {
    /// Circuits of a worker; all workers together may have twice as many.
    pub circuits: u32,
    /// Threads of a worker; follows from the circuits.
    pub threads: u32,
    /// Workers at a time.
    pub workers: u32,
    /// Bytes of a message.
    pub message_len: u64,
    /// Bytes of a socket buffer, or of a queue or a window that a transport's own options name.
    pub buffers: u64,
    /// Bytes of a worker's address space.
    pub memory: u64,
    /// Bits of user data a second that workers may send together; None for no limit.
    pub rate_bps: Option<u64>,
    /// Bytes of user data a session may move in both directions together.
    pub bytes: u64,
    /// Copies of the load that workers may run together; none unless the operator allows some.
    pub load: u32,
    /// Interfaces on which workers get raw sockets; none unless the operator names some.
    pub raw_interfaces: Vec<String>,
    /// Time a trial may measure, ns.
    pub trial_ns: u64,
    /// Time a session may last, s.
    pub session_s: u64,
}

/// Address space of a circuit: samples, rings and stacks of 50 MiB, mostly untouched.
const CIRCUIT_MEMORY: u64 = 50 << 20;

/// Least address space of a worker: its program, and a few circuits.
pub const WORKER_MEMORY_MIN: u64 = 512 << 20;

/// For each circuit a measuring thread, a helper, and the helper of the previous circuit where
/// circuits come and go; besides the control thread and a spare.
const fn threads_for(circuits: u32) -> u32 {
    circuits.saturating_mul(3).saturating_add(2)
}

impl Default for Caps {
    fn default() -> Caps {
        Caps {
            circuits: 64,
            threads: threads_for(64),
            workers: crate::session::WORKERS_MAX,
            message_len: 64 << 20,
            buffers: 64 << 20,
            // 64 circuits take 3.2 GiB, and the allocator reserves address space for each processor.
            memory: 8 << 30,
            rate_bps: None,
            bytes: 16 << 40,
            load: 0,
            raw_interfaces: Vec::new(),
            trial_ns: 60_000_000_000,
            session_s: 4 * 3600,
        }
    }
}

impl Caps {
    /// The default caps on a host with `memory` bytes that runs so many workers: all together may take
    /// three quarters of it, and have no more circuits than that allows.
    pub fn for_host_memory(memory: u64, workers: u32) -> Caps {
        let caps = Caps {
            workers: workers.max(1),
            ..Caps::default()
        };
        let share = memory / 4 * 3 / u64::from(caps.workers);
        let circuits = (share / CIRCUIT_MEMORY).clamp(1, u64::from(caps.circuits));
        Caps {
            memory: share.clamp(WORKER_MEMORY_MIN, caps.memory),
            ..caps.with_circuits(circuits as u32)
        }
    }

    /// The same caps with another number of circuits.
    #[must_use]
    pub fn with_circuits(mut self, circuits: u32) -> Caps {
        self.circuits = circuits;
        self.threads = threads_for(circuits);
        self
    }

    /// Bytes a second that workers may send together.
    pub fn bytes_per_s(&self) -> Option<u64> {
        self.rate_bps.map(|bits| (bits / 8).max(1))
    }

    /// Checks that `job` is within the caps and `quota`.
    ///
    /// # Errors
    ///
    /// A sentence that names what is too much, and what is allowed.
    pub fn check(&self, job: &Job, quota: WorkerQuota) -> Result<(), String> {
        self.check_circuits(job)?;
        self.check_bytes(job)?;
        check_rate(job, quota)?;
        let limits = job.limits;
        at_most("measured time", limits.time_ns, self.trial_ns, "ns")?;
        at_least_one("measured time", limits.time_ns)?;
        at_least_one("slice", limits.slice_ns)?;
        at_most("slices", limits.time_ns / limits.slice_ns, SLICES_MAX, "")?;
        at_most("path delay", job.path_delay_ns, PATH_DELAY_MAX_NS, "ns")?;
        at_most("service time", job.service_ns, limits.time_ns, "ns")?;
        if quota.bytes == 0 {
            return Err(format!(
                "the session has moved all of its {} bytes, or its other workers may; start another, \
                 or raise --max-bytes there",
                self.bytes
            ));
        }
        Ok(())
    }

    /// Checks that a load, with `running` copies of others, is within the caps.
    ///
    /// # Errors
    ///
    /// A sentence that names what is too much, and what is allowed.
    pub fn check_load(&self, job: LoadJob, running: u32) -> Result<(), String> {
        at_least_one("copies of a load", job.copies.into())?;
        let copies = u64::from(job.copies) + u64::from(running);
        if copies > self.load.into() {
            return Err(format!(
                "a load of {copies} is more than this agent allows, {}; start it with --max-load {copies}",
                self.load
            ));
        }
        at_most("time of a load", job.time_ns, self.load_ns(), "ns")
    }

    /// Time a load may take, ns: that of a trial, and of its set-up.
    pub fn load_ns(&self) -> u64 {
        self.trial_ns.saturating_add(LOAD_SETUP_NS)
    }

    fn check_circuits(&self, job: &Job) -> Result<(), String> {
        if job.components.is_empty() || job.components.len() > COMPONENTS_MAX {
            return Err(format!(
                "{} transports at once; there may be 1 to {COMPONENTS_MAX}",
                job.components.len()
            ));
        }
        for component in &job.components {
            at_least_one("number of circuits", u64::from(component.circuits))?;
            at_most(
                "transport's text",
                component.transport.len() as u64,
                COMPONENT_TEXT_MAX as u64,
                "B",
            )?;
        }
        let circuits = job.circuits();
        at_most("number of circuits", circuits, u64::from(self.circuits), "")?;
        // The cap keeps this far from overflow.
        let threads = u64::from(threads_for(circuits as u32));
        at_most("number of threads", threads, u64::from(self.threads), "")
    }

    fn check_bytes(&self, job: &Job) -> Result<(), String> {
        let mix = job.mix.map(|mix| [mix.small, mix.full]);
        for len in mix.into_iter().flatten().chain([job.message_len]) {
            at_least_one("message", len)?;
            at_most("message", len, self.message_len, "B")?;
        }
        at_most("reply", job.reply_len, self.message_len, "B")?;
        if matches!(job.workload, Workload::Transactions | Workload::Responsive) {
            at_least_one("reply", job.reply_len)?;
        }
        if job.mix.is_some_and(|mix| mix.small_percent > 100) {
            return Err("a mix has more than 100 % small messages".into());
        }
        let settings = &job.circuit_options;
        at_most("read", settings.read_len, self.message_len, "B")?;
        at_most("batch", settings.batch.unwrap_or(1), BATCH_MAX, "packets")?;
        at_most(
            "socket buffer",
            settings.buffers.unwrap_or(0),
            self.buffers,
            "B",
        )?;
        let plain = |name: &str| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        if settings.congestion.len() > CONGESTION_MAX || !plain(&settings.congestion) {
            return Err("the congestion control's name is invalid".into());
        }
        if settings.interface.is_some() {
            return Err("a client names no interfaces of this host; leave out --interface".into());
        }
        Ok(())
    }

    /// The job limited by the agent: allowance and pace are at most those of `quota`, and the
    /// message limit of a sender fits the allowance.
    #[must_use]
    pub fn limit_job(&self, mut job: Job, quota: WorkerQuota) -> Job {
        let smaller = |cap: Option<u64>, requested: Option<u64>| match (cap, requested) {
            (Some(cap), Some(requested)) => Some(cap.min(requested)),
            (cap, requested) => cap.or(requested),
        };
        if job.sends() {
            // A reply counts too; but for transactions it is as long as its request.
            let back = match job.role {
                _ if job.reply_len > 0 => job.reply_len,
                Role::Source if job.workload != Workload::Connect => 0,
                _ => job.request_len_max(),
            };
            let one = job.request_len_max().saturating_add(back).max(1);
            let each = quota.bytes / job.circuits().max(1) / one;
            job.limits.messages = job.limits.messages.min(each.max(1));
        }
        job.allowance_bytes = smaller(Some(quota.bytes), job.allowance_bytes);
        job.pace_bytes_per_s = smaller(quota.pace_bytes_per_s, job.pace_bytes_per_s);
        job
    }
}

/// Checks that an open loop offers no more than its pace permits.
fn check_rate(job: &Job, quota: WorkerQuota) -> Result<(), String> {
    if job.workload == Workload::Offered && job.message_len < STAMP_LEN as u64 {
        return Err(format!(
            "a message of an offered load needs at least the {STAMP_LEN} B of its stamp"
        ));
    }
    let Some(Rate { per_s, .. }) = job.rate else {
        return Ok(());
    };
    if !per_s.is_finite() || per_s <= 0.0 {
        return Err("the offered rate is not a positive number".into());
    }
    let bytes = per_s * job.message_len_mean() * job.circuits() as f64;
    match quota.pace_bytes_per_s {
        Some(most) if bytes > most as f64 && job.sends() => Err(format!(
            "{:.0} bit/s are offered; this agent lets its worker send at most {} bit/s",
            bytes * 8.0,
            most.saturating_mul(8)
        )),
        _ => Ok(()),
    }
}

fn at_most(what: &str, value: u64, most: u64, unit: &str) -> Result<(), String> {
    if value <= most {
        return Ok(());
    }
    let space = if unit.is_empty() { "" } else { " " };
    Err(format!(
        "a {what} of {value}{space}{unit} is more than this agent allows, {most}{space}{unit}"
    ))
}

fn at_least_one(what: &str, value: u64) -> Result<(), String> {
    match value {
        0 => Err(format!("a {what} of 0 is not allowed")),
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
