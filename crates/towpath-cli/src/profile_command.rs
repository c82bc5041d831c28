//! `towpath profile`: the CPU time of a message by layer and procedure.

mod beside;
mod routine_calls;
mod tables;

use crate::args::{RaceArgs, workload};
use crate::print::{self, note};
use crate::transports::{wants_colour, width};
use crate::{CliError, EXIT_OK};
use clap::Args;
use control::Workload;
use measure::profiled::{self, Profile, ProfilePlan, ProfilingError};
use profile::flame::StackTree;
use profile::flame_difference;
use profile::table::Detail;
use profile::{CallCounting, FunctionList};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tables::tables_text;

/// Options of a profile.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Times are CPU time of a message in ns, with their share of all of it; a row that grows significantly \
with size is marked with +. The result folder has the same data as JSON (profile.json, in seconds per \
10,000 messages), a flame graph (flame.svg) and the stacks as text (stacks.folded).

Examples:
  towpath profile tcp --size 64,1KiB,16KiB
  towpath profile xtp --size 1KiB --workload delay
  towpath profile udp --size 64,1400 --link rate=1gbit
  towpath profile tcp --size 64 --against results/before      what took more time, what less
  towpath profile tcp udp xtp --size 1KiB                     layers side by side
  towpath profile tcp --size 1024 --messages 10000 --all      exactly as many, every function
  towpath profile tcp udp --size 1,1KiB --calls               calls of each kernel routine for a message"
)]
pub struct ProfileArgs {
    /// The transport, optionally with options (tcp,congestion=bbr). Several are profiled one after the other, and
    /// their layers are shown side by side.
    #[arg(value_name = "TRANSPORT[,KEY=VALUE...]", required = true)]
    pub transports: Vec<String>,
    /// Message sizes, side by side in the table: a list (64,1KiB) or a doubling range (1..16KiB).
    #[arg(long, value_name = "SIZES", default_value = "64,1KiB,16KiB")]
    pub size: String,
    /// The workload: throughput or delay.
    #[arg(long, short, value_parser = workload(), default_value = "throughput")]
    pub workload: Workload,
    /// Sampling time of each size; with --messages at most.
    #[arg(long, default_value = "2s", value_parser = crate::parse::time)]
    pub time: Duration,
    /// Messages of each size, in place of all that the time takes.
    #[arg(long, value_name = "COUNT", value_parser = crate::parse::whole::<1, 1_000_000_000, u64>)]
    pub messages: Option<u64>,
    /// List every function that was sampled, by its whole name.
    #[arg(long)]
    pub all: bool,
    /// Also count the calls of each kernel routine, of --messages messages (2000 if not given): of the network stack,
    /// of all functions (--calls=all), or of those with these names (--calls='tcp_*,ip_output'). By the kernel's
    /// function tracer, which root may use; where it is not, of the routines that have a tracepoint, and that is said.
    #[arg(long, value_name = "FUNCTIONS", num_args = 0..=1, require_equals = true, default_missing_value = "network")]
    pub calls: Option<FunctionList>,
    /// Socket buffer size, as for `towpath race`.
    #[arg(long, value_name = "SIZE")]
    pub buffers: Option<String>,
    /// TCP_NODELAY on or off, as for `towpath race`.
    #[arg(long, value_name = "on or off")]
    pub nodelay: Option<String>,
    /// Put sender and receiver into two network namespaces with this link between them, as for
    /// `towpath race`.
    #[arg(long, value_name = "LINK")]
    pub link: Option<String>,
    /// CPUs of sender and receiver (0,1), one for both (0), or none for no pinning.
    #[arg(long, value_name = "CPUS")]
    pub pin: Option<String>,
    /// Folder of the result; default: a new one in results/.
    #[arg(long, short)]
    pub out: Option<PathBuf>,
    /// Also write the difference from the profile in FOLDER: flame-difference.svg, and both times of each
    /// stack as text.
    #[arg(long, value_name = "FOLDER")]
    pub against: Option<PathBuf>,
    /// Print JSON instead of the tables.
    #[arg(long)]
    pub json: bool,
    /// Other races on this machine.
    #[command(flatten)]
    pub alone: crate::alone::AloneArgs,
}

/// The stacks of a profile, in its folder.
const STACKS_FILE: &str = "stacks.folded";

/// Most octets of [`STACKS_FILE`]: 32 trees of 20,000 stacks, of which few are as long as 1 KiB.
const STACKS_OCTETS_MAX: u64 = 64 << 20;

/// Maximum number of sizes: each is a column of the table.
const SIZES_MAX: usize = 16;

/// Maximum number of transports: each is a column of the table.
const TRANSPORTS_MAX: usize = 16;

/// Shortest and longest sampling time of a size: long enough for the counting phase to see
/// messages, short enough for the samples to fit in memory.
const TIME_RANGE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Runs the command.
pub fn run(args: &ProfileArgs) -> Result<u8, CliError> {
    check_arguments(args)?;
    // Before workers are started and hosts created.
    let before = args.against.as_deref().map(read_stacks).transpose()?;
    profile::available().map_err(CliError::failed)?;
    let races = args
        .transports
        .iter()
        .map(|transport| race_args(args, transport));
    let races: Vec<RaceArgs> = races.collect::<Result<_, _>>()?;
    let stop = crate::race::stop_flag()?;
    let _alone = crate::alone::claim(args.alone, &stop)?;
    let plan = plan(args)?;
    let mut all = Vec::new();
    for (race, transport) in races.iter().zip(&args.transports) {
        all.push(profile_one((args, &plan), race, transport, &stop)?);
    }
    let folder = args
        .out
        .clone()
        .unwrap_or_else(|| crate::race::default_folder("profile"));
    let flames = write_all(&folder, &all)?;
    if let (Some(before), Some(against), [found]) = (&before, &args.against, all.as_slice()) {
        write_difference(&folder, against, before, found)?;
    }
    if args.json {
        match all.as_slice() {
            [found] => print::json(found)?,
            several => print::json(&several)?,
        }
        return Ok(EXIT_OK);
    }
    for found in &all {
        print::line(tables_text(
            found,
            wants_colour(),
            args.table_width(),
            args.all,
        ))?;
        for doubt in &found.doubts {
            note(format_args!("warning: {doubt}"));
        }
    }
    if all.len() > 1 {
        print::line(beside::text(&all))?;
        print::line(routine_calls::beside(&all, args.all))?;
    }
    print::line(format_args!("result  {}", folder.display()))?;
    for flame in flames {
        print::line(format_args!("flames  {}", flame.display()))?;
    }
    if before.is_some() {
        print::line(format_args!(
            "changed {}",
            folder.join(DIFFERENCE_FILE).display()
        ))?;
    }
    Ok(EXIT_OK)
}

/// What is measured of each size.
fn plan(args: &ProfileArgs) -> Result<ProfilePlan, CliError> {
    let calls = args.calls.as_ref().map(CallCounting::find).transpose();
    Ok(ProfilePlan {
        span: args.time,
        messages: args.messages,
        detail: if args.all { Detail::All } else { Detail::Main },
        calls: calls.map_err(|error| CliError::usage(error.to_string()))?,
    })
}

/// Profiles one transport.
fn profile_one(
    (args, plan): (&ProfileArgs, &ProfilePlan),
    race: &RaceArgs,
    transport: &str,
    stop: &AtomicBool,
) -> Result<Profile, CliError> {
    let mut environment = crate::environment::set_up(race)?;
    let spec = crate::race::spec_in_environment(race, &environment)?;
    if !args.json {
        note(format_args!(
            "Profiling {transport}: {}, {} each",
            crate::progress::counted(spec.sizes.len() as u64, "size"),
            seconds(args.time.as_secs_f64())
        ));
    }
    let found = profiled::run(&spec, plan, &mut environment, stop);
    found.map_err(|error| match error {
        ProfilingError::Profile(error) => CliError::failed(error),
        trial @ ProfilingError::Trial { .. } => CliError::failed(trial),
    })
}

impl ProfileArgs {
    /// Columns of a table; with --all nothing is cut.
    fn table_width(&self) -> usize {
        if self.all { usize::MAX } else { width() }
    }
}

/// The stacks of the profile in a folder, which may be a stranger's.
fn read_stacks(folder: &Path) -> Result<Vec<StackTree>, CliError> {
    let path = folder.join(STACKS_FILE);
    let refuse = |error: String| {
        CliError::failed(format!(
            "cannot read {}: {error}; is {} the folder of a profile?",
            path.display(),
            folder.display()
        ))
    };
    let text = results::bounded_file::read_text(&path, STACKS_OCTETS_MAX)
        .map_err(|error| refuse(error.to_string()))?;
    profile::stack_text::read(&text).map_err(refuse)
}

/// The difference of two profiles, in the folder of the later.
const DIFFERENCE_FILE: &str = "flame-difference.svg";

fn write_difference(
    folder: &Path,
    against: &Path,
    before: &[StackTree],
    found: &Profile,
) -> Result<(), CliError> {
    let trees = flame_difference::differences(before, &found.stack_trees);
    let title = format!(
        "{}, {}: against {}",
        found.transport,
        found.workload,
        against.display()
    );
    for (name, text) in [
        (DIFFERENCE_FILE, flame_difference::svg(&title, &trees)),
        ("stacks-difference.folded", flame_difference::folded(&trees)),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| fault(&path, &error))?;
    }
    Ok(())
}

fn fault(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!(
        "cannot write {}: {error}; give another --out",
        path.display()
    ))
}

fn check_arguments(args: &ProfileArgs) -> Result<(), CliError> {
    if !matches!(args.workload, Workload::Throughput | Workload::Delay) {
        return Err(CliError::usage(
            "a profile needs --workload throughput or delay",
        ));
    }
    if let Some(transport) = args.transports.iter().find(|text| text.contains('+')) {
        return Err(CliError::usage(format!(
            "{transport} is several transports at once; give them as words of their own"
        )));
    }
    if args.transports.len() > TRANSPORTS_MAX {
        return Err(CliError::usage(format!(
            "{} transports do not fit side by side; give {TRANSPORTS_MAX} at most",
            args.transports.len()
        )));
    }
    if args.against.is_some() && args.transports.len() > 1 {
        return Err(CliError::usage(
            "--against is for one transport; profile the others by themselves",
        ));
    }
    if args.time < TIME_RANGE.0 || args.time > TIME_RANGE.1 {
        return Err(CliError::usage("--time must be from 200ms to 10s"));
    }
    let sizes = crate::parse::sizes(&args.size).map_err(CliError::usage)?;
    if sizes.len() > SIZES_MAX {
        return Err(CliError::usage(format!(
            "{} sizes do not fit side by side; give {SIZES_MAX} at most",
            sizes.len()
        )));
    }
    Ok(())
}

/// The arguments of a race with one contestant, which a profile runs.
fn race_args(args: &ProfileArgs, transport: &str) -> Result<RaceArgs, CliError> {
    let mut words = vec![transport, "--sizes", &args.size];
    words.extend(["--workload", args.workload.name(), "--no-control"]);
    let options = [
        ("--link", &args.link),
        ("--pin", &args.pin),
        ("--buffers", &args.buffers),
        ("--nodelay", &args.nodelay),
    ];
    for (name, value) in options {
        if let Some(value) = value {
            words.extend([name, value]);
        }
    }
    words.extend(args.json.then_some("--json"));
    RaceArgs::of_words(words)
}

/// Writes the results; gives the paths of the flame graphs. Several transports have a folder each, and
/// all tables together stand in the one above.
fn write_all(folder: &Path, all: &[Profile]) -> Result<Vec<PathBuf>, CliError> {
    if folder.join("plan.json").exists() {
        return Err(CliError::failed(format!(
            "{} contains the result of a race; give another --out",
            folder.display()
        )));
    }
    if let [found] = all {
        return Ok(vec![write(folder, found)?]);
    }
    let places = all.iter().enumerate();
    let flames = places.map(|(at, found)| {
        let name = found.transport.split(',').next().unwrap_or_default();
        write(&folder.join(format!("{}-{name}", at + 1)), found)
    });
    let flames = flames.collect::<Result<_, _>>()?;
    write_json(&folder.join("profile.json"), &all)?;
    Ok(flames)
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), CliError> {
    let json = serde_json::to_string_pretty(value).map_err(CliError::failed)?;
    std::fs::write(path, json).map_err(|error| fault(path, &error))
}

/// Writes the result of one transport; gives the path of the flame graph.
fn write(folder: &Path, found: &Profile) -> Result<PathBuf, CliError> {
    std::fs::create_dir_all(folder).map_err(|error| fault(folder, &error))?;
    write_json(&folder.join("profile.json"), found)?;
    let title = format!(
        "{}, {}: seconds per 10,000 messages ({})",
        found.transport, found.workload, found.clock
    );
    let flame = folder.join("flame.svg");
    let svg = profile::flame::svg(&title, &found.stack_trees);
    std::fs::write(&flame, svg).map_err(|error| fault(&flame, &error))?;
    let stacks = folder.join(STACKS_FILE);
    std::fs::write(&stacks, profile::stack_text::write(&found.stack_trees))
        .map_err(|error| fault(&stacks, &error))?;
    Ok(flame)
}

fn seconds(value: f64) -> String {
    format!("{value:.1} s")
}
