//! Trials whose workers are sampled: where a message's time goes.
//!
//! Each size runs twice. The first trial counts what the kernel tells by tracepoints, which slows
//! it; the second is sampled. Both are ordinary trials, of one circuit, with the workers and the
//! stage a race would have.

use crate::place::Place;
use crate::spec::{Contest, RaceSpec};
use crate::stage::{Between, Stage, Surroundings};
use crate::trial::{self, Collected, TrialError, TrialSpec};
use control::{Limits, WorkerReport};
use profile::count::{Counters, tracepoints};
use profile::flame::Trunk;
use profile::fold::Tree;
use profile::table::{Column, MESSAGES, Measured, Side, Tally};
use profile::{Clock, KernelSymbols, Namer, ProfileError, Recorder, Recording};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Part of a size's time that the counting trial gets.
const COUNTING_PART: f64 = 0.2;

/// Samples a trial should have at least, for rows of a few per cent to mean something.
const SAMPLES_MIN: u64 = 200;

/// Why a transport has no profile.
#[derive(Debug, thiserror::Error)]
pub enum NoProfile {
    /// This machine or user samples nothing.
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
    /// What made the samples: `cycles` or `cpu-clock`.
    pub clock: String,
    /// Messages that times are given for.
    pub per_messages: f64,
    /// The sender and the receiver.
    pub sides: Vec<Side>,
    /// What to know before believing it, one sentence each.
    pub doubts: Vec<String>,
    /// The stacks, in seconds for [`Profile::per_messages`].
    #[serde(skip)]
    pub trunks: Vec<Trunk>,
}

/// Names of the two sides.
const SIDES: [&str; 2] = ["sender", "receiver"];

/// Profiles the first contestant of `spec` at each of its sizes, for `span` a size.
///
/// # Errors
///
/// [`NoProfile`]; without the privilege nothing is started.
pub fn run(
    spec: &RaceSpec,
    span: Duration,
    stage: &mut dyn Stage,
    stop: &AtomicBool,
) -> Result<Profile, NoProfile> {
    let clock = profile::available()?;
    let mut profiler = Profiler {
        clock,
        namer: Namer::new(KernelSymbols::load()?),
        points: tracepoints(),
        sampled: BTreeMap::new(),
    };
    let mut contests = spec.contests();
    contests.sort_by_key(|contest| contest.size);
    let first = contests.first().map_or(0, |contest| contest.size);
    stage.set(0).map_err(|what| NoProfile::Trial {
        size: first,
        error: TrialError::Failed(what),
    })?;
    let mut sizes: [Vec<Measured>; 2] = Default::default();
    let mut trunks: [Vec<Trunk>; 2] = Default::default();
    for contest in &contests {
        let size = contest.size;
        let both = profiler
            .size(spec, contest, span, stage, stop)
            .map_err(|error| NoProfile::Trial { size, error })?;
        for (at, (measured, tree)) in both.into_iter().enumerate() {
            sizes[at].push(measured);
            trunks[at].push((format!("{}, {size} B", SIDES[at]), tree));
        }
    }
    let sides = SIDES.iter().zip(&sizes);
    let sides: Vec<Side> = sides.map(|(name, sizes)| Side::of(name, sizes)).collect();
    Ok(Profile {
        transport: spec.contestants.first().cloned().unwrap_or_default(),
        workload: contests
            .first()
            .map(|contest| contest.cell.workload())
            .unwrap_or_default(),
        clock: clock.name().into(),
        per_messages: MESSAGES,
        doubts: doubts(&sides, profiler.points.is_empty()),
        sides,
        trunks: trunks.into_iter().flatten().collect(),
    })
}

struct Profiler {
    clock: Clock,
    namer: Namer,
    points: BTreeMap<&'static str, u64>,
    /// Samples of the trial that has just run, by process.
    sampled: BTreeMap<u32, (Tally, Tree)>,
}

impl Profiler {
    /// Both sides at one size.
    fn size(
        &mut self,
        spec: &RaceSpec,
        contest: &Contest,
        span: Duration,
        stage: &mut dyn Stage,
        stop: &AtomicBool,
    ) -> Result<[(Measured, Tree); 2], TrialError> {
        let mut counting = Probed {
            stage: &mut *stage,
            probe: Counting {
                points: &self.points,
                counters: Vec::new(),
                counts: Vec::new(),
            },
        };
        let short = trial_of(spec, contest, span.mul_f64(COUNTING_PART));
        let counted = trial::run(spec, &short, spec.seed, &mut counting, stop)?;
        let counts = std::mem::take(&mut counting.probe.counts);
        // Tracepoints cost time as long as somebody counts them.
        drop(counting);
        let mut sampling = Probed {
            stage,
            probe: Sampling {
                profiler: self,
                recorder: None,
                processes: [0; 2],
                lost: 0,
            },
        };
        let long = trial_of(spec, contest, span);
        let collected = trial::run(spec, &long, spec.seed, &mut sampling, stop)?;
        let (processes, lost) = (sampling.probe.processes, sampling.probe.lost);
        Ok([0, 1].map(|at| {
            let counts = counts.get(at).cloned().unwrap_or_default();
            let (tally, mut tree) = self.sampled.remove(&processes[at]).unwrap_or_default();
            let column = column(side(&collected, at), contest.size, &tally, lost);
            // From samples to seconds, as in the table.
            let cpu_s = column.cpu_s * MESSAGES / column.messages.max(1) as f64;
            let weight = tree.root.weight;
            tree.scale(if weight > 0.0 { cpu_s / weight } else { 0.0 });
            let measured = Measured {
                counts: rates(side(&counted, at), contest.size, counts),
                column,
                tally,
            };
            (measured, tree)
        }))
    }

    /// Names the samples.
    fn take_in(&mut self, recording: &Recording, processes: [u32; 2]) {
        for process in processes {
            self.sampled.insert(process, Default::default());
        }
        for sample in &recording.samples {
            let frames = self.namer.frames(sample);
            if let Some((tally, tree)) = self.sampled.get_mut(&sample.process) {
                tally.add(&frames, sample.weight as f64);
                tree.add(&frames, sample.weight as f64);
            }
        }
    }
}

/// As long as it says, whatever comes of it.
fn trial_of(spec: &RaceSpec, contest: &Contest, span: Duration) -> TrialSpec {
    let ns = span.as_nanos() as u64;
    TrialSpec {
        contest: contest.clone(),
        contestant: spec.contestants.first().cloned().unwrap_or_default(),
        limits: Limits {
            messages: u64::MAX,
            time_ns: ns,
            slice_ns: (ns / 200).max(200_000),
        },
        rate_per_s: None,
        seed: spec.seed,
    }
}

fn side(collected: &Collected, at: usize) -> &WorkerReport {
    [&collected.sender, &collected.receiver][at]
}

/// Messages a side sent or, by their octets, received.
fn messages(report: &WorkerReport, size: u64) -> u64 {
    let circuits = report.circuits.iter();
    let one = |circuit: &control::CircuitReport| match circuit.sent {
        0 => circuit.received_bytes / size.max(1),
        sent => sent,
    };
    circuits.map(one).sum()
}

fn column(report: &WorkerReport, size: u64, tally: &Tally, lost: u64) -> Column {
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

/// How often a message: what the kernel counted, and what the transport counts itself.
fn rates(
    report: &WorkerReport,
    size: u64,
    counted: BTreeMap<String, u64>,
) -> BTreeMap<String, f64> {
    let mut all = counted;
    for circuit in &report.circuits {
        for (name, count) in &circuit.counts {
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

fn doubts(sides: &[Side], uncounted: bool) -> Vec<String> {
    let mut doubts = Vec::new();
    for side in sides {
        for column in &side.columns {
            let place = format!("{}, {} B", side.name, column.size);
            if column.samples < SAMPLES_MIN {
                doubts.push(format!(
                    "{place}: only {} samples; give a longer --time",
                    column.samples
                ));
            }
            if column.lost * 20 > column.samples {
                doubts.push(format!(
                    "{place}: {} samples were lost; give a shorter --time",
                    column.lost
                ));
            }
        }
    }
    if uncounted {
        doubts.push(
            "this user sees no tracepoints, so that the kernel counts nothing; run as root".into(),
        );
    }
    doubts
}

/// What is done to the workers of a trial.
trait Probe {
    /// They are there, connector and listener.
    fn attach(&mut self, processes: [u32; 2]) -> Result<(), ProfileError>;

    /// The measured span begins.
    fn begin(&mut self);

    /// It has ended; the workers still live.
    fn end(&mut self);
}

/// A stage with a probe.
struct Probed<'a, P> {
    stage: &'a mut dyn Stage,
    probe: P,
}

impl<P: Probe> Stage for Probed<'_, P> {
    fn places(&self) -> (&dyn Place, &dyn Place) {
        self.stage.places()
    }

    fn between(&self) -> Vec<Between<'_>> {
        self.stage.between()
    }

    fn spawned(&mut self, connector: u32, listener: u32) -> Result<(), String> {
        let attached = self.probe.attach([connector, listener]);
        attached.map_err(|error| error.to_string())
    }

    fn snapshot(&self) -> host::Snapshot {
        self.stage.snapshot()
    }

    fn interface(&self) -> &str {
        self.stage.interface()
    }

    fn longest_way(&self) -> Duration {
        self.stage.longest_way()
    }

    fn begin(&mut self, seed: u64) {
        self.stage.begin(seed);
        self.probe.begin();
    }

    fn end(&mut self) -> Surroundings {
        self.probe.end();
        self.stage.end()
    }
}

/// Counts tracepoints.
struct Counting<'a> {
    points: &'a BTreeMap<&'static str, u64>,
    counters: Vec<Counters>,
    counts: Vec<BTreeMap<String, u64>>,
}

impl Probe for Counting<'_> {
    fn attach(&mut self, processes: [u32; 2]) -> Result<(), ProfileError> {
        let watch = |process| Counters::watch(process, self.points);
        self.counters = processes.map(watch).into();
        Ok(())
    }

    fn begin(&mut self) {
        for counters in &self.counters {
            // What does not begin counts nothing, and is left out.
            let _ = counters.start();
        }
    }

    fn end(&mut self) {
        self.counts = self.counters.iter().map(Counters::stop).collect();
    }
}

/// Samples.
struct Sampling<'a> {
    profiler: &'a mut Profiler,
    recorder: Option<Recorder>,
    processes: [u32; 2],
    lost: u64,
}

impl Probe for Sampling<'_> {
    fn attach(&mut self, processes: [u32; 2]) -> Result<(), ProfileError> {
        self.processes = processes;
        self.recorder = Some(Recorder::watch(self.profiler.clock, &processes)?);
        Ok(())
    }

    fn begin(&mut self) {
        // A worker may be gone when it has reported.
        for process in self.processes {
            self.profiler.namer.learn(process);
        }
        if let Some(recorder) = &mut self.recorder {
            // One that does not begin has no samples, which is said.
            let _ = recorder.start();
        }
    }

    fn end(&mut self) {
        if let Some(mut recorder) = self.recorder.take() {
            let recording = recorder.stop();
            self.lost = recording.lost;
            self.profiler.take_in(&recording, self.processes);
        }
    }
}
