//! `towpath race`.

use crate::args::{ArrivalsArg, RaceArgs, WorkloadArg};
use crate::progress::Terminal;
use crate::{CliError, DONE, FAILED, parse};
use control::{Arrivals, Settings};
use measure::spec::{Direction, Loads, SWEEP_PERCENT};
use measure::{RaceSpec, ThisHost};
use results::{BlockPlan, RunData, RunStatus, Summary};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use towpath::Options;

/// What a race without arguments races.
pub const USUAL: [&str; 7] = [
    "tcp",
    "tcp-batched",
    "udp",
    "udp-segmented",
    "unix-stream",
    "quic",
    "bare",
];

/// Blocks after which verdicts are looked at, where the plan has them.
const LOOKS: [u32; 3] = [5, 10, 20];

/// Runs the command.
///
/// # Errors
///
/// What the user must know.
pub fn run(args: &RaceArgs) -> Result<u8, CliError> {
    let spec = spec(args)?;
    let folder = args.out.clone().unwrap_or_else(default_folder);
    let machine = host::machine(&crate::inspect::test_of(&spec));
    let stop = stop_flag()?;
    let program = std::env::current_exe().map_err(CliError::failed)?;
    let here = ThisHost::new(program, vec!["worker".into()]);
    if !args.json {
        anstream::eprintln!("{}", headline(&spec));
    }
    let mut terminal = Terminal::new(args.json);
    let result = measure::run(
        &spec,
        &machine,
        &folder,
        (&here, &here),
        &stop,
        &mut terminal,
    );
    terminal.finish();
    let (path, summary) = result.map_err(CliError::failed)?;
    show(args, &path, &summary)?;
    Ok(if summary.status == RunStatus::Failed {
        FAILED
    } else {
        DONE
    })
}

fn show(args: &RaceArgs, path: &Path, summary: &Summary) -> Result<(), CliError> {
    let report = path.join("report.html");
    if !args.no_report {
        crate::results_commands::write_report(path, &report)?;
    }
    if args.json {
        let text = serde_json::to_string_pretty(summary).map_err(CliError::failed)?;
        anstream::println!("{text}");
        return Ok(());
    }
    let run = RunData::read(path).map_err(CliError::failed)?;
    anstream::println!(
        "{}",
        report::table(
            &run,
            crate::inspect::wants_colour(),
            crate::inspect::width()
        )
    );
    match summary.status {
        RunStatus::Complete => {}
        RunStatus::Interrupted => {
            anstream::println!("The race was stopped; what was measured is kept.")
        }
        RunStatus::Failed => anstream::println!("The race failed: {}", summary.reason),
    }
    anstream::println!("result  {}", path.display());
    if !args.no_report {
        anstream::println!("report  {}", report.display());
    }
    Ok(())
}

/// What is raced, in a line.
fn headline(spec: &RaceSpec) -> String {
    let cpu = |cpu: Option<u32>| cpu.map_or("any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    format!(
        "Racing {} against {}: {}, {} sizes, {} blocks; sender on {}, receiver on {}; seed {}",
        others(spec),
        spec.baseline,
        spec.workloads.join(" and "),
        spec.sizes.len(),
        spec.blocks.max,
        cpu(spec.pin.0),
        cpu(spec.pin.1),
        spec.seed
    )
}

fn others(spec: &RaceSpec) -> String {
    let others: Vec<&str> = spec
        .contestants
        .iter()
        .map(String::as_str)
        .filter(|name| *name != spec.baseline)
        .collect();
    if others.is_empty() {
        "nothing".into()
    } else {
        others.join(", ")
    }
}

/// A flag that Ctrl-C sets. A second Ctrl-C ends the program at once.
fn stop_flag() -> Result<Arc<AtomicBool>, CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(FAILED),
            Arc::clone(&stop),
        )
        .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
        .map_err(CliError::failed)?;
    }
    Ok(stop)
}

fn default_folder() -> PathBuf {
    let format = time::macros::format_description!("[year][month][day]-[hour][minute][second]");
    let now = time::OffsetDateTime::now_utc();
    let stamp = now
        .format(&format)
        .unwrap_or_else(|_| now.unix_timestamp().to_string());
    let base = PathBuf::from("results");
    let first = base.join(format!("{stamp}-race"));
    let numbered = (2..100).map(|number| base.join(format!("{stamp}-race-{number}")));
    std::iter::once(first.clone())
        .chain(numbered)
        .find(|path| !path.exists())
        .unwrap_or(first)
}

/// From words to a race.
///
/// # Errors
///
/// What makes no sense, or is not here.
pub fn spec(args: &RaceArgs) -> Result<RaceSpec, CliError> {
    let settings = settings(args);
    let contestants = contestants(args, &settings)?;
    let baseline = args
        .baseline
        .clone()
        .unwrap_or_else(|| contestants[0].clone());
    if !contestants.contains(&baseline) {
        return Err(CliError::usage(format!(
            "the baseline '{baseline}' does not take part; choose one of {}",
            contestants.join(", ")
        )));
    }
    let sizes = parse::sizes(&args.sizes).map_err(CliError::usage)?;
    check_sizes(args, &sizes)?;
    let pin = swap(args.swap, args.pin.unwrap_or_else(default_pins));
    let rates = parse::rates(&args.rate).map_err(CliError::usage)?;
    let buffers = args.buffers.as_deref().map(parse::sizes).transpose();
    Ok(RaceSpec {
        command: std::env::args().collect(),
        contestants,
        baseline,
        workloads: args
            .workload
            .iter()
            .map(|workload| name(*workload).to_owned())
            .collect(),
        sizes,
        mix: args.mix,
        circuits: args.circuits,
        buffers: buffers.map_err(CliError::usage)?.unwrap_or_default(),
        loads: if rates.is_empty() {
            Loads::Percent(SWEEP_PERCENT.to_vec())
        } else {
            Loads::PerSecond(rates)
        },
        arrivals: match args.arrivals {
            ArrivalsArg::Fixed => Arrivals::Fixed,
            ArrivalsArg::Exponential => Arrivals::Exponential,
        },
        settings,
        direction: match (args.reverse, args.bidir) {
            (true, _) => Direction::Reverse,
            (_, true) => Direction::Both,
            _ => Direction::Forward,
        },
        pin,
        priority: swap(args.swap, args.priority.unwrap_or_default()),
        busy_poll: args.busy_poll,
        blocks: block_plan(args.blocks),
        control: !args.no_control,
        alpha: args.alpha,
        equal_within: args.equal_within,
        time_s: args.time.as_secs_f64(),
        trial_s: args.trial.map(|time| time.as_secs_f64()),
        seed: args.seed.unwrap_or_else(clock_seed),
    })
}

fn settings(args: &RaceArgs) -> Settings {
    Settings {
        ipv6: args.ipv6,
        read_len: args.read_size,
        buffers: None,
        nodelay: args.nodelay,
        congestion: args.congestion.clone(),
        batch: args.batch,
        interface: args.interface.clone(),
        ethertype: args.ethertype,
    }
}

/// The contestants; those named must be here, those of a list are left out with a word.
fn contestants(args: &RaceArgs, settings: &Settings) -> Result<Vec<String>, CliError> {
    let options = options(settings);
    if !args.transports.is_empty() {
        for name in args.transports.iter().flat_map(|name| name.split('+')) {
            let transport =
                towpath::find(name).map_err(|error| CliError::usage(error.to_string()))?;
            transport.available(&options).map_err(|missing| {
                CliError::failed(format!(
                    "{name} cannot be used: {}; {}",
                    missing.reason, missing.remedy
                ))
            })?;
        }
        let mut named = args.transports.clone();
        named.dedup();
        return Ok(named);
    }
    let wanted: Vec<&str> = if args.all {
        towpath::all()
            .iter()
            .map(|transport| transport.name())
            .filter(|name| *name != "null")
            .collect()
    } else {
        USUAL.to_vec()
    };
    let (here, missing) = crate::inspect::split_available(&wanted, &options);
    if !missing.is_empty() && !args.json {
        anstream::eprintln!("left out: {}", missing.join("; "));
    }
    if here.is_empty() {
        return Err(CliError::failed(
            "no transport can be used here; see `towpath transports`",
        ));
    }
    Ok(here)
}

/// The library's options, as far as availability depends on them.
pub(crate) fn options(settings: &Settings) -> Options {
    Options {
        family: if settings.ipv6 {
            towpath::Family::V6
        } else {
            towpath::Family::V4
        },
        congestion: settings.congestion.clone(),
        interface: settings.interface.clone(),
        ethertype: settings.ethertype,
        ..Options::default()
    }
}

fn check_sizes(args: &RaceArgs, sizes: &[u64]) -> Result<(), CliError> {
    let smallest = sizes.iter().min().copied().unwrap_or(0);
    if args.workload.contains(&WorkloadArg::Offered) && smallest < 16 {
        return Err(CliError::usage(
            "workload offered needs messages of at least 16 B, to carry their time; give --sizes from 16 on",
        ));
    }
    Ok(())
}

fn name(workload: WorkloadArg) -> &'static str {
    match workload {
        WorkloadArg::Throughput => "throughput",
        WorkloadArg::Delay => "delay",
        WorkloadArg::Offered => "offered",
        WorkloadArg::Connect => "connect",
    }
}

/// Looks are fixed before the first trial: those of 5, 10 and 20 within the range, and its end.
fn block_plan((min, max): (u32, u32)) -> BlockPlan {
    let mut looks: Vec<u32> = LOOKS
        .into_iter()
        .filter(|&look| look >= min && look < max)
        .collect();
    looks.push(max);
    BlockPlan { min, max, looks }
}

/// Two processors where there are two, so that trials do not differ by where they landed.
fn default_pins() -> (Option<u32>, Option<u32>) {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return (None, None);
    };
    let mut allowed = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
    match (allowed.next(), allowed.next()) {
        (Some(first), Some(second)) => (Some(first as u32), Some(second as u32)),
        _ => (None, None),
    }
}

fn swap<T>(swapped: bool, (sender, receiver): (T, T)) -> (T, T) {
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

/// Whether output goes to a terminal, for callers that choose a layout.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}
