//! Trials with sampled workers: CPU time of a message by layer and function.
//!
//! Each size runs twice. The first trial counts kernel tracepoints, which slows it down; the second
//! is sampled. Both are ordinary trials of one circuit, with the workers and the environment of a
//! race.

use crate::environment::{Environment, EnvironmentReport, HostPair};
use crate::spec::{Contest, RaceSpec};
use crate::trial::{self, Collected, TrialError, TrialSpec};
use control::{Limits, WorkerReport};
use loadgen::worker_host::WorkerHost;
use profile::flame::StackTree;
use profile::folded_stacks::FoldedStacks;
use profile::table::{Column, Detail, MeasuredSize, PER_MESSAGES, SampleTally, SideProfile};
use profile::tracepoint::{TracepointCounters, tracepoints};
use profile::{KernelSymbols, ProfileError, Recording, SampleClock, Sampler, Symbolizer};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Share of a size's time for the counting trial.
const COUNTING_SHARE: f64 = 0.2;

/// Samples a trial needs for rows of a few per cent to be meaningful.
const SAMPLES_MIN: u64 = 200;

/// Why a transport has no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfilingError {
    /// This machine or user cannot sample.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A trial failed.
    #[error("{size} B: {error}")]
    Trial {
        /// The size of the messages.
        size: u64,
        /// What went wrong.
        error: TrialError,
    },
}

/// A transport's profile.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// The transport with its options.
    pub transport: String,
    /// The workload.
    pub workload: String,
    /// Event that triggered the samples: `cycles` or `cpu-clock`.
    pub clock: String,
    /// Number of messages the times refer to.
    pub per_messages: f64,
    /// The sender and the receiver.
    pub sides: Vec<SideProfile>,
    /// Caveats, one sentence each.
    pub doubts: Vec<String>,
    /// Folded stacks, in seconds per [`Profile::per_messages`] messages.
    #[serde(skip)]
    pub stack_trees: Vec<StackTree>,
}

/// Names of the two sides.
const SIDES: [&str; 2] = ["sender", "receiver"];

/// How much is measured of each size, and how much of it is told.
#[derive(Clone, Copy, Debug)]
pub struct ProfilePlan {
    /// Sampling time, at most.
    pub span: Duration,
    /// Messages after which a size is done; None for as many as the time takes.
    pub messages: Option<u64>,
    /// Which functions are listed.
    pub detail: Detail,
}

/// Profiles the first contestant of `spec` at each of its sizes.
///
/// # Errors
///
/// [`ProfilingError`]; without the privilege no trial is started.
pub fn run(
    spec: &RaceSpec,
    plan: &ProfilePlan,
    environment: &mut dyn Environment,
    stop: &AtomicBool,
) -> Result<Profile, ProfilingError> {
    let clock = profile::available()?;
    let mut profiler = Profiler {
        clock,
        symbolizer: Symbolizer::new(KernelSymbols::load()?),
        tracepoints: tracepoints(),
        samples_by_process: BTreeMap::new(),
    };
    let mut contests = spec.contests();
    contests.sort_by_key(|contest| contest.size);
    let first = contests.first().map_or(0, |contest| contest.size);
    environment
        .apply_setting(0)
        .map_err(|what| ProfilingError::Trial {
            size: first,
            error: TrialError::Failed(what),
        })?;
    let mut sizes: [Vec<MeasuredSize>; 2] = Default::default();
    let mut trees: [Vec<StackTree>; 2] = Default::default();
    for contest in &contests {
        let size = contest.size;
        let both = profiler
            .profile_size(spec, contest, plan, environment, stop)
            .map_err(|error| ProfilingError::Trial { size, error })?;
        for (at, (measured, tree)) in both.into_iter().enumerate() {
            sizes[at].push(measured);
            trees[at].push((format!("{}, {size} B", SIDES[at]), tree));
        }
    }
    let sides = SIDES.iter().zip(&sizes);
    let sides: Vec<SideProfile> = sides
        .map(|(name, sizes)| SideProfile::of(name, sizes, plan.detail))
        .collect();
    Ok(Profile {
        transport: spec.contestants.first().cloned().unwrap_or_default(),
        workload: contests
            .first()
            .map(|contest| contest.cell.workload())
            .unwrap_or_default(),
        clock: clock.name().into(),
        per_messages: PER_MESSAGES,
        doubts: caveats(&sides, plan.messages, profiler.tracepoints.is_empty()),
        sides,
        stack_trees: trees.into_iter().flatten().collect(),
    })
}

struct Profiler {
    clock: SampleClock,
    symbolizer: Symbolizer,
    tracepoints: BTreeMap<&'static str, u64>,
    /// Samples of the trial that has just run, by process.
    samples_by_process: BTreeMap<u32, (SampleTally, FoldedStacks)>,
}

impl Profiler {
    /// Both sides at one size.
    fn profile_size(
        &mut self,
        spec: &RaceSpec,
        contest: &Contest,
        plan: &ProfilePlan,
        environment: &mut dyn Environment,
        stop: &AtomicBool,
    ) -> Result<[(MeasuredSize, FoldedStacks); 2], TrialError> {
        let mut counting = ProbedEnvironment {
            environment: &mut *environment,
            probe: TracepointProbe {
                tracepoints: &self.tracepoints,
                counters: Vec::new(),
                counts: Vec::new(),
            },
        };
        let short = trial_spec(spec, contest, &plan.part(COUNTING_SHARE));
        let counted = trial::run(spec, &short, spec.seed, &mut counting, stop)?;
        let counts = std::mem::take(&mut counting.probe.counts);
        // Enabled tracepoints cost time.
        drop(counting);
        let mut sampling = ProbedEnvironment {
            environment,
            probe: SamplingProbe {
                profiler: self,
                sampler: None,
                processes: [0; 2],
                lost: 0,
            },
        };
        let long = trial_spec(spec, contest, plan);
        let collected = trial::run(spec, &long, spec.seed, &mut sampling, stop)?;
        let (processes, lost) = (sampling.probe.processes, sampling.probe.lost);
        Ok([0, 1].map(|at| {
            let counts = counts.get(at).cloned().unwrap_or_default();
            let (tally, mut tree) = self
                .samples_by_process
                .remove(&processes[at])
                .unwrap_or_default();
            let column = column(report_of(&collected, at), contest.size, &tally, lost);
            // From samples to seconds, as in the table.
            let cpu_s = column.cpu_s * PER_MESSAGES / column.messages.max(1) as f64;
            let weight = tree.root.weight;
            tree.scale(if weight > 0.0 { cpu_s / weight } else { 0.0 });
            let measured = MeasuredSize {
                counts: rates(report_of(&counted, at), contest.size, counts),
                column,
                tally,
            };
            (measured, tree)
        }))
    }

    /// Symbolizes the samples and adds them to their process.
    fn add_recording(&mut self, recording: &Recording, processes: [u32; 2]) {
        for process in processes {
            self.samples_by_process.insert(process, Default::default());
        }
        for sample in &recording.samples {
            let frames = self.symbolizer.frames(sample);
            if let Some((tally, tree)) = self.samples_by_process.get_mut(&sample.process) {
                tally.add(&frames, sample.weight as f64);
                tree.add(&frames, sample.weight as f64);
            }
        }
    }
}

impl ProfilePlan {
    /// A share of it.
    fn part(&self, share: f64) -> ProfilePlan {
        let messages = |count: u64| ((count as f64 * share).ceil() as u64).max(1);
        ProfilePlan {
            span: self.span.mul_f64(share),
            messages: self.messages.map(messages),
            ..*self
        }
    }
}

/// A trial that is limited by time, and by messages if that is asked for.
fn trial_spec(spec: &RaceSpec, contest: &Contest, plan: &ProfilePlan) -> TrialSpec {
    let ns = plan.span.as_nanos() as u64;
    TrialSpec {
        contest: contest.clone(),
        contestant: spec.contestants.first().cloned().unwrap_or_default(),
        limits: Limits {
            messages: plan.messages.unwrap_or(u64::MAX),
            time_ns: ns,
            slice_ns: (ns / 200).max(200_000),
        },
        rate_per_s: None,
        seed: spec.seed,
    }
}

fn report_of(collected: &Collected, at: usize) -> &WorkerReport {
    [&collected.sender, &collected.receiver][at]
}

/// Messages a side sent; for a receiver, computed from the bytes received.
fn messages(report: &WorkerReport, size: u64) -> u64 {
    let circuits = report.circuits.iter();
    let one = |circuit: &control::CircuitReport| match circuit.sent {
        0 => circuit.received_bytes / size.max(1),
        sent => sent,
    };
    circuits.map(one).sum()
}

fn column(report: &WorkerReport, size: u64, tally: &SampleTally, lost: u64) -> Column {
    let spans = report.circuits.iter().map(|circuit| {
        let ns = circuit.last_ns.saturating_sub(circuit.first_ns);
        ns as f64 * 1e-9
    });
    Column {
        size,
        messages: messages(report, size),
        cpu_s: report.cpu.task_ns as f64 * 1e-9,
        span_s: spans.fold(0.0, f64::max),
        samples: tally.samples(),
        lost,
    }
}

fn is_time(counter: &str) -> bool {
    ["_ns", "_us", "_ms"]
        .iter()
        .any(|unit| counter.ends_with(unit))
}

/// Events per message: kernel tracepoints, and the transport's own counts.
fn rates(
    report: &WorkerReport,
    size: u64,
    counted: BTreeMap<String, u64>,
) -> BTreeMap<String, f64> {
    let mut all = counted;
    for circuit in &report.circuits {
        // A measured time among the counters is no count.
        let counts = circuit.counts.iter();
        for (name, count) in counts.filter(|(name, _)| !is_time(name)) {
            let name = format!("own count: {}", name.replace('_', " "));
            *all.entry(name).or_default() += count;
        }
    }
    let messages = messages(report, size).max(1) as f64;
    let happened = all.into_iter().filter(|(_, count)| *count > 0);
    happened
        .map(|(name, count)| (name, count as f64 / messages))
        .collect()
}

fn caveats(sides: &[SideProfile], wanted: Option<u64>, uncounted: bool) -> Vec<String> {
    let mut caveats = Vec::new();
    for side in sides {
        for column in &side.columns {
            let column_name = format!("{}, {} B", side.name, column.size);
            if column.samples < SAMPLES_MIN {
                caveats.push(format!(
                    "{column_name}: only {} samples; give a longer --time",
                    column.samples
                ));
            }
            if wanted.is_some_and(|wanted| column.messages < wanted) {
                caveats.push(format!(
                    "{column_name}: {} of {} messages in the time; give a longer --time",
                    column.messages,
                    wanted.unwrap_or_default()
                ));
            }
            if column.lost * 20 > column.samples {
                caveats.push(format!(
                    "{column_name}: {} samples were lost; give a shorter --time",
                    column.lost
                ));
            }
        }
    }
    if uncounted {
        caveats.push(
            "this user cannot read tracepoints, so kernel events are not counted; run as root"
                .into(),
        );
    }
    caveats
}

/// Instrumentation of a trial's workers.
trait TrialProbe {
    /// Called with the PIDs of connector and listener after they were spawned.
    fn attach(&mut self, processes: [u32; 2]) -> Result<(), ProfileError>;

    /// The measured span begins.
    fn begin(&mut self);

    /// The measured span has ended; the workers are still alive.
    fn end(&mut self);
}

/// An environment with a probe.
struct ProbedEnvironment<'a, P> {
    environment: &'a mut dyn Environment,
    probe: P,
}

impl<P: TrialProbe> Environment for ProbedEnvironment<'_, P> {
    fn worker_hosts(&self) -> (&dyn WorkerHost, &dyn WorkerHost) {
        self.environment.worker_hosts()
    }

    fn host_pairs(&self) -> Vec<HostPair<'_>> {
        self.environment.host_pairs()
    }

    fn workers_spawned(&mut self, connector: u32, listener: u32) -> Result<(), String> {
        let attached = self.probe.attach([connector, listener]);
        attached.map_err(|error| error.to_string())
    }

    fn snapshot(&self) -> host::Snapshot {
        self.environment.snapshot()
    }

    fn interfaces(&self) -> Vec<String> {
        self.environment.interfaces()
    }

    fn path_delay_max(&self) -> Duration {
        self.environment.path_delay_max()
    }

    fn record_queues(&mut self, every_ns: u64) {
        self.environment.record_queues(every_ns);
    }

    fn begin(&mut self, seed: u64) {
        self.environment.begin(seed);
        self.probe.begin();
    }

    fn end(&mut self) -> EnvironmentReport {
        self.probe.end();
        self.environment.end()
    }
}

/// Counts tracepoints.
struct TracepointProbe<'a> {
    tracepoints: &'a BTreeMap<&'static str, u64>,
    counters: Vec<TracepointCounters>,
    counts: Vec<BTreeMap<String, u64>>,
}

impl TrialProbe for TracepointProbe<'_> {
    fn attach(&mut self, processes: [u32; 2]) -> Result<(), ProfileError> {
        let watch = |process| TracepointCounters::attach(process, self.tracepoints);
        self.counters = processes.map(watch).into();
        Ok(())
    }

    fn begin(&mut self) {
        for counters in &self.counters {
            // A counter that does not start counts nothing and is left out.
            let _ = counters.start();
        }
    }

    fn end(&mut self) {
        self.counts = self.counters.iter().map(TracepointCounters::stop).collect();
    }
}

/// Samples.
struct SamplingProbe<'a> {
    profiler: &'a mut Profiler,
    sampler: Option<Sampler>,
    processes: [u32; 2],
    lost: u64,
}

impl TrialProbe for SamplingProbe<'_> {
    fn attach(&mut self, processes: [u32; 2]) -> Result<(), ProfileError> {
        self.processes = processes;
        self.sampler = Some(Sampler::attach(self.profiler.clock, &processes)?);
        Ok(())
    }

    fn begin(&mut self) {
        // Mappings are read now, because a worker may exit after its report.
        for process in self.processes {
            self.profiler.symbolizer.load_process(process);
        }
        if let Some(sampler) = &mut self.sampler {
            // Without samples the profile carries a caveat.
            let _ = sampler.start();
        }
    }

    fn end(&mut self) {
        if let Some(mut sampler) = self.sampler.take() {
            let recording = sampler.stop();
            self.lost = recording.lost;
            self.profiler.add_recording(&recording, self.processes);
        }
    }
}
