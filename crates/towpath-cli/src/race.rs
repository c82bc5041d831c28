//! `towpath race`.

use crate::alone::{self, Alone};
use crate::args::RaceArgs;
use crate::contestants::{baseline, check_buffers, classes, contestants, programs};
use crate::environment::RunningCapture;
use crate::parse::RaceSizes;
use crate::pins::check_pins;
pub(crate) use crate::pins::{allowed_cpus, default_pins};
use crate::print::{self, note};
use crate::progress::{ProgressDisplay, counted};
use crate::results_commands::{overview, write_report};
use crate::transports::{wants_colour, width};
use crate::{CliError, EXIT_FAILED, EXIT_OK, parse, race_checks};
use control::{CircuitOptions, Workload};
use loadgen::turn_schedule::TURN_S;
use loadgen::worker::library_options;
use measure::environment::LocalEnvironment;
use measure::size_steps::SizeRange;
use measure::spec::{Direction, Loads, SWEEP_PERCENT, TransactionPlan};
use measure::{Environment, RaceSpec};
use results::{BlockPlan, Machine, RunData, RunStatus, Summary};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use towpath::Options;

/// Block counts at which a race with a range of blocks is analysed and may stop.
const INTERIM_ANALYSES: [u32; 4] = [3, 5, 10, 20];

/// Blocks of a race that names no number.
const BLOCKS: u32 = 10;

/// Runs the command.
pub fn run(args: &RaceArgs) -> Result<u8, CliError> {
    let args = &crate::resume::resolved(args)?;
    crate::contestants::learn_transports(&args.transports)?;
    race_checks::check(args)?;
    if args.remote.is_given() {
        return crate::remote_race::run(args);
    }
    let (path, summary, capture_line) = measure_here(args)?;
    print_result(args, &path)?;
    if let (Some(line), false) = (capture_line, args.json) {
        print::line(line)?;
    }
    exit_code(&path, &summary)
}

/// Races on this machine; gives the folder of the result, the summary, and a line on the capture.
pub(crate) fn measure_here(
    args: &RaceArgs,
) -> Result<(PathBuf, Summary, Option<String>), CliError> {
    let stop = stop_flag()?;
    let alone = alone::claim(args.alone, &stop)?;
    let mut environment = crate::environment::set_up(args)?;
    let mut spec = spec_in_environment(args, &environment)?;
    check_turns(&spec, &environment)?;
    note_other_race(&mut spec, &alone);
    let mut machine = host::machine(&crate::transports::doctor_test(&spec));
    crate::resume::note_changes(args, &machine)?;
    if !args.json {
        note(headline(&spec));
    }
    crate::environment::calibrate(args, &environment, &mut machine)?;
    let recording = crate::environment::start_capture(args, &environment)?;
    let result = measure(args, &spec, &machine, &mut environment, &stop);
    drop(environment);
    let recorded = recording.map(RunningCapture::finish).transpose();
    let (path, summary) = result?;
    Ok((path, summary, recorded?))
}

/// Runs the trials and shows how far they are; gives the folder of the result, and the summary.
pub(crate) fn measure(
    args: &RaceArgs,
    spec: &RaceSpec,
    machine: &Machine,
    environment: &mut dyn Environment,
    stop: &AtomicBool,
) -> Result<(PathBuf, Summary), CliError> {
    let folder = args.out.clone().unwrap_or_else(|| default_folder("race"));
    let mut progress = ProgressDisplay::new(args.json, args.time);
    let result = measure::run(spec, machine, &folder, environment, stop, &mut progress);
    progress.finish();
    result.map_err(CliError::failed)
}

/// Refuses `--turns on` where contestants cannot take turns.
pub(crate) fn check_turns(spec: &RaceSpec, environment: &dyn Environment) -> Result<(), CliError> {
    let notes = measure::turn_plan::notes(spec, environment);
    let refused =
        |why| CliError::usage(format!("{why}; omit --turns on, or that part of the race"));
    notes.map(|_| ()).map_err(refused)
}

/// Marks a race that goes on beside another one.
pub(crate) fn note_other_race(spec: &mut RaceSpec, alone: &Alone) {
    let beside = alone.beside.iter();
    let notes = beside.map(|other| (results::OTHER_RACE.to_owned(), other.clone()));
    spec.notes.extend(notes);
}

/// The exit code of a finished race.
pub(crate) fn exit_code(path: &Path, summary: &Summary) -> Result<u8, CliError> {
    match summary.status {
        RunStatus::Complete => race_checks::check_baseline(path).map(|()| EXIT_OK),
        RunStatus::Interrupted => Err(CliError::failed(format!(
            "the race was stopped; the finished trials are kept in {}",
            path.display()
        ))),
        RunStatus::Failed => Err(CliError::failed(format!(
            "the race failed: {}",
            summary.reason
        ))),
    }
}

/// The race specification; availability is checked on the sending host of the testbed, if any.
pub(crate) fn spec_in_environment(
    args: &RaceArgs,
    environment: &LocalEnvironment,
) -> Result<RaceSpec, CliError> {
    let Some((_, testbed)) = environment.testbeds().next() else {
        return spec(args);
    };
    let mut args = args.clone();
    args.interface.get_or_insert(testbed::INTERFACE.into());
    let asked = testbed.hosts()[0].run(move || spec(&args));
    asked.map_err(CliError::failed)?
}

/// Writes the report and prints the result.
pub(crate) fn print_result(args: &RaceArgs, path: &Path) -> Result<(), CliError> {
    let report = path.join("report.html");
    let written = if args.no_report {
        Ok(())
    } else {
        write_report(path, &report)
    };
    let run = RunData::read(path).map_err(CliError::failed)?;
    if args.json {
        print::json(&run.summary)?;
        return written;
    }
    print::line(overview(&run, wants_colour(), width(), &args.show))?;
    if let Some(found) = run.plan.options.get(results::STEPS) {
        print::line(format_args!("\njumps   {found}"))?;
    }
    print::line(format_args!("\nresult  {}", path.display()))?;
    written?;
    if !args.no_report {
        print::line(format_args!("report  {}", report.display()))?;
    }
    Ok(())
}

/// One line on what is raced.
pub(crate) fn headline(spec: &RaceSpec) -> String {
    let cpu = |cpu: Option<u32>| cpu.map_or("any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    format!(
        "Racing {}: {}, {}, {}; sender on {}, receiver on {}; seed {}",
        contestants_text(spec),
        spec.workloads.join(" and "),
        sizes_text(spec),
        counted(u64::from(spec.blocks.max), "block"),
        cpu(spec.pin.0),
        cpu(spec.pin.1),
        spec.seed
    )
}

/// `3 sizes`, or where their pilots look for them.
fn sizes_text(spec: &RaceSpec) -> String {
    match spec.size_steps {
        None => counted(spec.sizes.len() as u64, "size"),
        Some(SizeRange { from, to }) => format!("sizes where the cost jumps from {from} to {to} B"),
    }
}

/// `udp, quic against tcp`.
fn contestants_text(spec: &RaceSpec) -> String {
    let all = spec.contestants.iter().map(String::as_str);
    let others: Vec<&str> = all.filter(|name| *name != spec.baseline).collect();
    if others.is_empty() {
        format!("{} alone", spec.baseline)
    } else {
        format!("{} against {}", others.join(", "), spec.baseline)
    }
}

/// A flag that SIGINT and SIGTERM set; a second signal ends the program at once.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(EXIT_FAILED),
            Arc::clone(&stop),
        )
        .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
        .map_err(CliError::failed)?;
    }
    Ok(stop)
}

/// A new folder in results/ for a result of `command`.
pub(crate) fn default_folder(command: &str) -> PathBuf {
    let format = time::macros::format_description!("[year][month][day]-[hour][minute][second]");
    let now = time::OffsetDateTime::now_utc();
    let stamp = now
        .format(&format)
        .unwrap_or_else(|_| now.unix_timestamp().to_string());
    let base = PathBuf::from("results");
    let first = base.join(format!("{stamp}-{command}"));
    let numbered = (2..100).map(|number| base.join(format!("{stamp}-{command}-{number}")));
    std::iter::once(first.clone())
        .chain(numbered)
        .find(|path| !path.exists())
        .unwrap_or(first)
}

/// The race specification of the arguments.
///
/// # Errors
///
/// When arguments contradict each other or a transport is not available.
pub fn spec(args: &RaceArgs) -> Result<RaceSpec, CliError> {
    let circuit_options = circuit_options(args);
    let (contestants, unavailable) = contestants(args, &library_options(&circuit_options))?;
    if !unavailable.is_empty() && !args.json {
        let each = unavailable
            .iter()
            .map(|(name, why)| format!("{name} ({why})"));
        note(format_args!(
            "unavailable: {}",
            each.collect::<Vec<_>>().join("; ")
        ));
    }
    let baseline = baseline(args, &contestants)?;
    let asked = parse::race_sizes(&args.sizes).map_err(CliError::usage)?;
    let size_steps = match asked {
        RaceSizes::Steps(range) => Some(range),
        RaceSizes::Listed(_) => None,
    };
    let (messages, sizes) = args.messages.counts(without_duplicates(&asked.known()))?;
    check_sizes(args, &sizes)?;
    race_checks::check_transactions(args, &sizes)?;
    check_pins(args)?;
    if args.packet_sizes {
        measure::packet_sizes::available().map_err(|error| {
            CliError::failed(format!(
                "cannot capture packets: {error}; run as root, or omit --packet-sizes"
            ))
        })?;
    }
    let pin = swap_if(args.swap, args.pin.unwrap_or_else(default_pins));
    let rates = parse::rates(&args.rate).map_err(CliError::usage)?;
    let buffers = args.buffers.as_deref().map(parse::sizes).transpose();
    let buffers = buffers.map_err(CliError::usage)?.unwrap_or_default();
    check_buffers(&buffers, &contestants)?;
    crate::environment::check_reach(args, &contestants)?;
    let programs_to_run = crate::exec_contestants::definitions(args, &contestants)?;
    let mut notes = classes(&contestants, &programs_to_run);
    notes.extend(programs(&contestants)?);
    notes.extend(
        crate::environment::cpu_allocation(args).map(|text| ("processors".to_owned(), text)),
    );
    let unavailable = unavailable.into_iter();
    notes.extend(unavailable.map(|(name, why)| (format!("unavailable.{name}"), why)));
    notes.extend(labels(args)?);
    notes.extend(path_note(args).map(|text| ("path".to_owned(), text)));
    let mut spec = RaceSpec {
        command: crate::own_words(std::env::args().collect()),
        contestants,
        baseline,
        workloads: without_duplicates(&args.workload)
            .iter()
            .map(|workload| workload.name().to_owned())
            .collect(),
        sizes,
        size_steps,
        messages,
        mix: args.mix,
        circuits: without_duplicates(&args.circuits),
        buffers,
        loads: if rates.is_empty() {
            Loads::Percent(SWEEP_PERCENT.to_vec())
        } else {
            Loads::PerSecond(rates)
        },
        arrivals: args.arrivals,
        transactions: transaction_plan(args),
        circuit_options,
        direction: match (args.reverse, args.bidir) {
            (true, _) => Direction::Reverse,
            (_, true) => Direction::Both,
            _ => Direction::Forward,
        },
        fan_out: without_duplicates(&args.receivers.fan_out),
        pin,
        priority: swap_if(args.swap, args.priority.unwrap_or_default()),
        busy_poll: args.busy_poll,
        blocks: block_plan(args.blocks),
        control: !args.no_control,
        turns: args.turns,
        turn_s: args.turn_time.map_or(TURN_S, |time| time.as_secs_f64()),
        alpha: args.alpha,
        equal_within: args.equal_within,
        time_s: args.time.as_secs_f64(),
        trial_s: args.trial.map(|time| time.as_secs_f64()),
        seed: args.seed.unwrap_or_else(clock_seed),
        packet_sizes: args.packet_sizes,
        series: args.series,
        programs: programs_to_run,
        settled: Vec::new(),
        notes,
    };
    crate::resume::restrict(args, &mut spec)?;
    Ok(spec)
}

fn transaction_plan(args: &RaceArgs) -> TransactionPlan {
    let usual = TransactionPlan::default();
    TransactionPlan {
        clients: match &args.clients[..] {
            [] => usual.clients,
            some => without_duplicates(some),
        },
        reply: args.reply.unwrap_or(usual.reply),
        service: args.service.unwrap_or(usual.service),
    }
}

/// The labels of the run, for the plan.
fn labels(args: &RaceArgs) -> Result<BTreeMap<String, String>, CliError> {
    let mut labels = BTreeMap::new();
    for (key, text) in &args.label {
        let name = format!("{}{key}", results::LABEL_PREFIX);
        if labels.insert(name, text.clone()).is_some() {
            return Err(CliError::usage(format!(
                "label {key} is given twice; give each key once"
            )));
        }
    }
    Ok(labels)
}

/// The path of messages that leave this host, for the plan.
fn path_note(args: &RaceArgs) -> Option<String> {
    if args.remote.is_given() {
        return Some(args.remote.direction_text(args.runs_pairs_together()));
    }
    let all = args.environment.link.iter();
    let texts = all.map(|(text, links)| match links.are_several() {
        true => format!("{text} side by side"),
        false => text.clone(),
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| format!("between two hosts, over {}", texts.join(" or ")))
}

/// The options of the circuits, without buffers, which are swept.
fn circuit_options(args: &RaceArgs) -> CircuitOptions {
    CircuitOptions {
        ipv6: args.ipv6,
        read_len: args.read_size,
        buffers: None,
        nodelay: args.nodelay,
        congestion: congestion(args),
        batch: args.batch,
        interface: args.interface.clone(),
        ethertype: args.ethertype,
    }
}

/// The congestion control of the arguments, or the default; a default other than cubic is noted.
fn congestion(args: &RaceArgs) -> String {
    if let Some(asked) = &args.congestion {
        return asked.clone();
    }
    let chosen = default_congestion();
    if chosen != PREFERRED_CONGESTION && !args.json {
        crate::print::note(format!(
            "TCP uses {chosen}, the system's default: only root may set {PREFERRED_CONGESTION} here"
        ));
    }
    chosen
}

/// The default of most systems.
const PREFERRED_CONGESTION: &str = "cubic";

/// Cubic, or the system's default where an unprivileged user may not set cubic. It is always set,
/// read back and stored.
pub(crate) fn default_congestion() -> String {
    let can_be_set = |name: &str| {
        let options = Options {
            congestion: name.to_owned(),
            ..Options::default()
        };
        towpath::find("tcp").is_ok_and(|tcp| tcp.available(&options).is_ok())
    };
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    let own = std::fs::read_to_string(path).unwrap_or_default();
    let own = own.trim();
    if can_be_set(PREFERRED_CONGESTION) || !can_be_set(own) {
        return PREFERRED_CONGESTION.into();
    }
    own.to_owned()
}

fn check_sizes(args: &RaceArgs, sizes: &[u64]) -> Result<(), CliError> {
    let smallest = sizes.iter().min().copied().unwrap_or(0);
    if args.workload.contains(&Workload::Offered) && smallest < 16 {
        return Err(CliError::usage(
            "workload offered needs messages of at least 16 B, for the send time; give --sizes from 16",
        ));
    }
    Ok(())
}

/// Interim analyses are fixed before the first trial: 3, 5, 10 and 20 blocks as far as they lie within
/// the range, and its end.
///
/// Blocks that nobody asked for give way to `--time`, down to the fewest of a verdict.
fn block_plan(asked: Option<(u32, u32)>) -> BlockPlan {
    let (min, max) = asked.unwrap_or((BLOCKS, BLOCKS));
    let mut looks: Vec<u32> = INTERIM_ANALYSES
        .into_iter()
        .filter(|&look| look >= min && look < max)
        .collect();
    looks.push(max);
    let fewest = results::Verdict::PAIRS_MIN;
    let min = asked.map_or(fewest.min(max), |(min, _)| min);
    BlockPlan { min, max, looks }
}

/// The values in order without duplicates: a repeated value is the same cell.
pub(crate) fn without_duplicates<T: Clone + PartialEq>(values: &[T]) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for value in values {
        if !kept.contains(value) {
            kept.push(value.clone());
        }
    }
    kept
}

pub(crate) fn swap_if<T>(swapped: bool, (sender, receiver): (T, T)) -> (T, T) {
    if swapped {
        (receiver, sender)
    } else {
        (sender, receiver)
    }
}

fn clock_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_nanos() as u64 & 0xffff_ffff)
}
