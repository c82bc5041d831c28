//! Trials with sampled workers: CPU time of a message by layer and function.
//!
//! Each size runs twice. The first trial counts kernel tracepoints, which slows it down; the second
//! is sampled. A third, if it is asked for, counts calls of kernel routines, which takes many times as long for each
//! message. All are ordinary trials of one circuit, with the workers and the environment of a race.

mod probes;

use crate::environment::Environment;
use crate::spec::{Contest, RaceSpec};
use crate::trial::{self, Collected, TrialError, TrialSpec};
use control::{Limits, WorkerReport};
use probes::{CallProbe, ProbedEnvironment, SamplingProbe, TracepointProbe};
use profile::call_table::{CallColumn, MeasuredCalls};
use profile::calls::RoutineCalls;
use profile::flame::StackTree;
use profile::folded_stacks::FoldedStacks;
use profile::table::{Column, Detail, MeasuredSize, PER_MESSAGES, SampleTally, SideProfile};
use profile::tracepoint::tracepoints;
use profile::{CallCounting, KernelSymbols, ProfileError, Recording, SampleClock, Symbolizer};
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
    /// How calls of kernel routines were counted, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallCounting>,
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

/// Messages of a trial that counts calls, if the user gives no number: what the tracer's buffers hold when each
/// message makes 600 calls on one processor.
const CALLS_MESSAGES: u64 = 2000;

/// How much is measured of each size, and how much of it is told.
#[derive(Clone, Debug)]
pub struct ProfilePlan {
    /// Sampling time, at most.
    pub span: Duration,
    /// Messages after which a size is done; None for as many as the time takes.
    pub messages: Option<u64>,
    /// Which functions are listed.
    pub detail: Detail,
    /// How calls of kernel routines are counted; None for not at all.
    pub calls: Option<CallCounting>,
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
        doubts: caveats(&sides, plan, profiler.tracepoints.is_empty()),
        calls: plan.calls.clone(),
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
        let mut calls = match &plan.calls {
            Some(counting) => {
                count_calls((spec, contest), plan, counting, &mut *environment, stop)?
            }
            None => [None, None],
        };
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
                calls: calls[at].take(),
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
            ..self.clone()
        }
    }

    /// That of the trial that counts calls.
    fn of_calls(&self) -> ProfilePlan {
        ProfilePlan {
            messages: self.messages.or(Some(CALLS_MESSAGES)),
            ..self.clone()
        }
    }
}

/// Calls of kernel routines on both sides.
fn count_calls(
    (spec, contest): (&RaceSpec, &Contest),
    plan: &ProfilePlan,
    counting: &CallCounting,
    environment: &mut dyn Environment,
    stop: &AtomicBool,
) -> Result<[Option<MeasuredCalls>; 2], TrialError> {
    let mut probed = ProbedEnvironment {
        environment,
        probe: CallProbe::new(counting),
    };
    let few = trial_spec(spec, contest, &plan.of_calls());
    let collected = trial::run(spec, &few, spec.seed, &mut probed, stop)?;
    let counted = probed.probe.take();
    let counted = counted
        .map_err(|error| TrialError::Failed(format!("calls of kernel routines: {error}")))?;
    let mut counted = counted.into_iter();
    Ok([0, 1].map(|at| {
        let RoutineCalls { calls, lost } = counted.next()?;
        Some(MeasuredCalls {
            column: CallColumn {
                messages: messages(report_of(&collected, at), contest.size),
                lost,
            },
            calls,
        })
    }))
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

fn caveats(sides: &[SideProfile], plan: &ProfilePlan, uncounted: bool) -> Vec<String> {
    let wanted = plan.messages;
    let mut caveats: Vec<String> = sides.iter().flat_map(caveats_of_calls).collect();
    caveats.extend(plan.calls.as_ref().and_then(|counting| {
        let because = counting.because()?;
        Some(format!(
            "calls of kernel routines: {}, since {because}",
            counting.name()
        ))
    }));
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

/// What a reader of the calls of a side must know.
fn caveats_of_calls(side: &SideProfile) -> Vec<String> {
    let Some(table) = &side.calls else {
        return Vec::new();
    };
    let sizes = side.columns.iter().map(|column| column.size);
    let lost = sizes
        .zip(&table.columns)
        .filter(|(_, calls)| calls.lost > 0);
    lost.map(|(size, calls)| {
        format!(
            "{}, {size} B: {} calls of kernel routines were lost of {} messages, so none is shown; give fewer --messages or fewer functions",
            side.name, calls.lost, calls.messages
        )
    })
    .collect()
}
