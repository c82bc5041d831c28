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
        at_most("time of a load", job.time_ns, self.trial_ns, "ns")
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
pub(crate) mod tests {
    use super::*;
    use crate::{Arrivals, CircuitOptions, ComponentSpec, Limits, Mix, Side};

    /// A job within all caps.
    pub(crate) fn job() -> Job {
        Job {
            side: Side::Listen,
            role: Role::Source,
            workload: Workload::Throughput,
            components: vec![ComponentSpec {
                transport: "tcp".into(),
                circuits: 2,
            }],
            circuit_options: CircuitOptions {
                congestion: "cubic".into(),
                ..CircuitOptions::default()
            },
            bind: None,
            local_addresses: Vec::new(),
            peer_addresses: Vec::new(),
            peer: None,
            clock_offset_ns: 0,
            pace_bytes_per_s: None,
            allowance_bytes: None,
            path_delay_ns: 0,
            message_len: 1000,
            reply_len: 0,
            service_ns: 0,
            mix: None,
            limits: Limits {
                messages: 1_000_000,
                time_ns: 1_000_000_000,
                slice_ns: 1_000_000,
            },
            rate: None,
            pin: None,
            priority: None,
            busy_poll: false,
            series: false,
            raw_sockets: Vec::new(),
            seed: 1,
        }
    }

    fn unlimited() -> WorkerQuota {
        WorkerQuota {
            bytes: u64::MAX,
            pace_bytes_per_s: None,
        }
    }

    type Change = fn(&mut Job);

    #[test]
    fn caps_of_small_host_leave_it_a_quarter_of_its_memory() {
        let large = Caps::for_host_memory(256 << 30, 4);
        assert_eq!((large.memory, large.circuits), (8 << 30, 64));
        for (gib, workers) in [(4, 4), (8, 4), (16, 4), (16, 20)] {
            let caps = Caps::for_host_memory(gib << 30, workers);
            assert!(
                caps.memory * u64::from(caps.workers) <= (gib << 30) / 4 * 3,
                "{gib}"
            );
            assert!(
                u64::from(caps.circuits) * CIRCUIT_MEMORY <= caps.memory,
                "{gib}"
            );
            assert_eq!(caps.threads, threads_for(caps.circuits));
        }
        assert_eq!(Caps::for_host_memory(4 << 30, 4).circuits, 15);
        let tiny = Caps::for_host_memory(64 << 20, 4);
        assert_eq!((tiny.memory, tiny.circuits), (WORKER_MEMORY_MIN, 1));
    }

    #[test]
    fn every_resource_has_its_cap() {
        let caps = Caps::default();
        assert_eq!(caps.check(&job(), unlimited()), Ok(()));
        let too_much: [(&str, Change); 18] = [
            ("reply", |job| job.reply_len = u64::MAX),
            ("reply", |job| job.workload = Workload::Transactions),
            ("service time", |job| job.service_ns = u64::MAX),
            ("circuits", |job| job.components[0].circuits = 65),
            ("circuits", |job| job.components[0].circuits = u32::MAX),
            ("circuits", |job| job.components[0].circuits = 0),
            ("transports at once", |job| job.components.clear()),
            ("transports at once", |job| {
                job.components = vec![job.components[0].clone(); 9]
            }),
            ("text", |job| job.components[0].transport = "x".repeat(9999)),
            ("message", |job| job.message_len = u64::MAX),
            ("message", |job| job.message_len = 0),
            ("message", |job| {
                job.mix = Some(Mix {
                    small: 1,
                    full: u64::MAX,
                    small_percent: 7,
                });
            }),
            ("read", |job| job.circuit_options.read_len = u64::MAX),
            ("socket buffer", |job| {
                job.circuit_options.buffers = Some(1 << 40)
            }),
            ("measured time", |job| job.limits.time_ns = u64::MAX),
            ("slice", |job| job.limits.slice_ns = 0),
            ("interface", |job| {
                job.circuit_options.interface = Some("eth0".into())
            }),
            ("congestion", |job| {
                job.circuit_options.congestion = "../../etc".into()
            }),
        ];
        for (words, change) in too_much {
            let mut job = job();
            change(&mut job);
            let why = caps.check(&job, unlimited()).expect_err(words);
            assert!(why.contains(words), "{why}");
        }
        assert!(
            caps.check(&job(), WorkerQuota::default())
                .expect_err("no bytes")
                .contains("bytes")
        );
    }

    #[test]
    fn loads_are_refused_unless_allowed_and_together_within_the_cap() {
        let load = |copies, time_ns| LoadJob { copies, time_ns };
        let why = Caps::default().check_load(load(1, 1), 0).expect_err("none");
        assert!(why.contains("--max-load 1"), "{why}");
        let caps = Caps {
            load: 3,
            ..Caps::default()
        };
        assert_eq!(caps.check_load(load(3, caps.trial_ns), 0), Ok(()));
        assert_eq!(caps.check_load(load(1, 1), 2), Ok(()));
        for (job, running) in [
            (load(4, 1), 0),
            (load(2, 1), 2),
            (load(u32::MAX, 1), u32::MAX),
            (load(0, 1), 0),
            (load(1, caps.trial_ns + 1), 0),
        ] {
            caps.check_load(job, running).expect_err("too much");
        }
    }

    #[test]
    fn thread_cap_follows_circuits() {
        let caps = Caps {
            threads: 5,
            ..Caps::default()
        };
        let why = caps
            .check(&job(), unlimited())
            .expect_err("two circuits need 8");
        assert!(why.contains("number of threads of 8"), "{why}");
    }

    fn offered(per_s: f64) -> Job {
        Job {
            rate: Some(Rate {
                per_s,
                arrivals: Arrivals::Fixed,
            }),
            workload: Workload::Offered,
            ..job()
        }
    }

    #[test]
    fn offered_rate_must_be_finite_and_within_quota() {
        let quota = WorkerQuota {
            bytes: 1,
            pace_bytes_per_s: Some(125_000),
        };
        for (per_s, fine) in [
            (10.0, true),
            (62.0, true),
            (63.0, false),
            (1e9, false),
            (f64::NAN, false),
            (f64::INFINITY, false),
            (-1.0, false),
        ] {
            let caps = Caps::default();
            assert_eq!(caps.check(&offered(per_s), quota).is_ok(), fine, "{per_s}");
        }
        let mut mixed = offered(10.0);
        mixed.mix = Some(Mix {
            small: 100,
            full: 64_000,
            small_percent: 50,
        });
        let why = Caps::default().check(&mixed, quota).expect_err("the mix");
        assert!(why.contains("5128000 bit/s are offered"), "{why}");
        let mut short = offered(10.0);
        short.message_len = 15;
        Caps::default().check(&short, quota).expect_err("no stamp");
    }

    #[test]
    fn limit_job_caps_bytes_and_pace() {
        let quota = WorkerQuota {
            bytes: 10_000,
            pace_bytes_per_s: Some(1000),
        };
        let limited = |job: Job| Caps::default().limit_job(job, quota);
        let source = limited(job());
        assert_eq!(source.limits.messages, 5);
        assert_eq!(source.pace_bytes_per_s, Some(1000));
        assert_eq!(source.allowance_bytes, Some(10_000));
        let mut asking = job();
        (asking.role, asking.workload) = (Role::Client, Workload::Delay);
        assert_eq!(limited(asking).limits.messages, 2);
        let mut called = job();
        (called.role, called.workload) = (Role::Client, Workload::Transactions);
        called.reply_len = 4000;
        assert_eq!(limited(called).limits.messages, 1);
        // A mix counts by its longest message, not by `message_len`.
        let mut mixed = job();
        mixed.message_len = 1;
        mixed.mix = Some(Mix {
            small: 1,
            full: 2500,
            small_percent: 99,
        });
        assert_eq!(limited(mixed).limits.messages, 2);
        let mut modest = job();
        (modest.allowance_bytes, modest.pace_bytes_per_s) = (Some(7), Some(9));
        let modest = limited(modest);
        assert_eq!(
            (modest.allowance_bytes, modest.pace_bytes_per_s),
            (Some(7), Some(9))
        );
        let free = Caps::default().limit_job(job(), unlimited());
        assert_eq!(free.pace_bytes_per_s, None);
    }
}
