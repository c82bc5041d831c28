//! The command line.

use crate::parse;
use crate::sim;
use crate::study;
use clap::{Args, Parser, Subcommand, ValueEnum};
use control::Mix;
use std::path::PathBuf;
use std::time::Duration;

/// Race transport protocols on your own workload and path.
///
/// `towpath race` with no arguments races the usual transports over the loopback in about a
/// minute and says which wins, by how much, how sure that is, and why.
#[derive(Debug, Parser)]
#[command(name = "towpath", version, about, long_about, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "Examples:
  towpath race                                    the usual transports, one minute
  towpath race tcp unix-stream --sizes 1..16KiB   two of them, sizes doubling
  towpath race tcp udp --workload offered         open loop: where is the knee?
  towpath profile tcp --size 64,16KiB             where does the time go?
  towpath doctor                                  what would spoil a measurement here
  towpath doctor --to lab2                        and on the way to lab2, and there
  towpath compare results/a results/b --fail-on 3%

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 verdict against (compare --fail-on).";

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Race transports against one another.
    Race(Box<RaceArgs>),
    /// List the transports: what is here, what is not and why, and what each promises.
    #[command(after_help = "Examples:
  towpath transports
  towpath transports --json")]
    Transports(OutputArgs),
    /// Say what about this machine would spoil a measurement, and what to do about it.
    Doctor(crate::doctor::DoctorArgs),
    /// Write the HTML report of a result again.
    Report(ReportArgs),
    /// Print the cost model of a result: time per message = fixed + per byte x size.
    #[command(after_help = "Examples:
  towpath race tcp unix-stream --sizes 1..64KiB --out sizes
  towpath fit sizes")]
    Fit(ResultArgs),
    /// Compare two results cell by cell.
    Compare(CompareArgs),
    /// Print the trials of a result as CSV.
    #[command(after_help = "Examples:
  towpath export results/a > a.csv
  towpath export results/a --json > a.json")]
    Export(ResultArgs),
    /// Print the table and verdicts of a result.
    #[command(after_help = "Examples:
  towpath show results/a
  towpath show results/a --json")]
    Show(ResultArgs),
    /// Run scenarios in virtual time.
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// Run the classic experiments again.
    #[command(subcommand)]
    Study(study::StudyCommand),
    /// Say where a message's time goes: layers and procedures, from the user's call to the wire.
    Profile(crate::profile_command::ProfileArgs),
    /// Hosts and a link in this machine, for programs of your own.
    #[command(subcommand)]
    Testbed(crate::testbed_command::TestbedCommand),
    /// Carry the connections of any TCP program over XTP.
    Forward(crate::forward_command::ForwardArgs),
    /// Copy a file to one host or to many over XTP, or receive files.
    Cp(crate::cp_command::CpArgs),
    /// Look at live endpoints of XTP, and stand between them.
    #[command(subcommand)]
    Xtp(crate::xtp_command::XtpCommand),
    /// Let trusted clients on other hosts measure against this one.
    Agent(crate::agent_command::AgentArgs),
    /// Make, show and trust the keys of `agent` and `race --to`.
    #[command(subcommand)]
    Key(crate::key_command::KeyCommand),
    /// A worker of a race; started by towpath itself.
    #[command(hide = true)]
    Worker {
        /// Where endpoints of XTP write down their packets.
        #[arg(long)]
        trace: Option<PathBuf>,
    },
    /// A unit of host load; started by towpath itself.
    #[command(hide = true)]
    LoadUnit {
        /// Processor to run on.
        #[arg(long)]
        cpu: Option<u32>,
        /// What to do, in turn.
        parts: Vec<String>,
    },
    /// Print the man page.
    #[command(
        hide = true,
        after_help = "Examples:
  towpath man > towpath.1"
    )]
    Man,
    /// Print completions for a shell.
    #[command(
        hide = true,
        after_help = "Examples:
  towpath completions bash > /usr/share/bash-completion/completions/towpath"
    )]
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

/// Options of commands that only print.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A result.
#[derive(Clone, Debug, Args)]
pub struct ResultArgs {
    /// The folder of a run.
    pub folder: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A result and where its report goes.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  towpath report results/a
  towpath report results/a --out a.html")]
pub struct ReportArgs {
    /// The folder of a run.
    pub folder: PathBuf,
    /// Where to write the report; by default report.html beside the folder's files.
    #[arg(long, short)]
    pub out: Option<PathBuf>,
}

/// Two results.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Exit code 3 when a cell of B is worse than A by more than --fail-on, with confidence.

Examples:
  towpath compare before after
  towpath compare before after --fail-on 3% --json"
)]
pub struct CompareArgs {
    /// The older result.
    pub a: PathBuf,
    /// The newer one.
    pub b: PathBuf,
    /// Fail when a cell got worse by more than this.
    #[arg(long, value_name = "SHARE", value_parser = parse::percent)]
    pub fail_on: Option<f64>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadArg {
    /// As many messages as will go, one way.
    Throughput,
    /// Request and reply, one at a time.
    Delay,
    /// Messages at given times, whatever comes of it.
    Offered,
    /// Set-up, one request, tear-down.
    Connect,
}

/// How open-loop messages are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsArg {
    /// All gaps alike.
    Fixed,
    /// Exponential gaps (a Poisson process).
    Exponential,
}

/// Options of a race.
#[derive(Clone, Debug, Args)]
#[command(after_help = RACE_EXAMPLES)]
pub struct RaceArgs {
    /// Transports to race, baseline first, each with options of its own if need be
    /// (tcp,congestion=bbr); several joined by + run together (tcp+udp). Without any: tcp
    /// tcp-batched udp udp-segmented unix-stream quic bare. `towpath transports` lists them all
    /// with their options.
    #[arg(value_name = "TRANSPORT[,KEY=VALUE...]")]
    pub transports: Vec<String>,
    /// Race everything this host has.
    #[arg(long, conflicts_with = "transports")]
    pub all: bool,
    /// Message sizes: a list (64,1KiB) or a doubling range (1..16KiB).
    #[arg(long, value_name = "SIZES", default_value = "64,1KiB,16KiB")]
    pub sizes: String,
    /// What to measure; may be given several times, or as a list.
    #[arg(long, short, value_enum, value_delimiter = ',', default_values = ["throughput", "delay"])]
    pub workload: Vec<WorkloadArg>,
    /// The contestant the others are compared with; by default the first.
    #[arg(long)]
    pub baseline: Option<String>,
    /// Circuits of each transport at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub circuits: u32,
    /// Blocks: each cell is measured once a block. A range stops at a look (5, 10, 20) where every
    /// verdict stands.
    #[arg(long, value_name = "N or MIN..MAX", default_value = "10", value_parser = parse::blocks)]
    pub blocks: (u32, u32),
    /// Time for the whole race.
    #[arg(long, default_value = "60s", value_parser = parse::time)]
    pub time: Duration,
    /// Time each trial measures, instead of what the pilots find.
    #[arg(long, value_parser = parse::time)]
    pub trial: Option<Duration>,
    /// Decides the order of trials and every random choice; by default from the clock.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Where the result goes; by default a new folder in results/.
    #[arg(long, short)]
    pub out: Option<PathBuf>,
    /// Print the summary as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// IPv6.
    #[arg(short = '6')]
    pub ipv6: bool,
    /// The listening side sends.
    #[arg(long, conflicts_with = "bidir")]
    pub reverse: bool,
    /// Both sides send at once.
    #[arg(long)]
    pub bidir: bool,
    /// Change the CPUs (and priorities) of the two sides.
    #[arg(long)]
    pub swap: bool,
    /// CPUs of sender and receiver (0,1), one for both (0), or none to let the system choose.
    #[arg(long, value_name = "CPUS", value_parser = parse::pins)]
    pub pin: Option<(Option<u32>, Option<u32>)>,
    /// Nice values: sender=-20,receiver=19.
    #[arg(long, value_name = "VALUES", value_parser = parse::priorities, allow_hyphen_values = true)]
    pub priority: Option<(Option<i32>, Option<i32>)>,
    /// Spin on non-blocking calls in delay trials instead of sleeping.
    #[arg(long)]
    pub busy_poll: bool,
    /// Socket buffers; a list is swept.
    #[arg(long, value_name = "SIZES")]
    pub buffers: Option<String>,
    /// TCP_NODELAY on or off; by default on for delay and off for throughput.
    #[arg(long, value_name = "on or off", value_parser = on_or_off)]
    pub nodelay: Option<bool>,
    /// TCP congestion control; by default cubic, or where only root may set that, the system's.
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Bytes a byte stream's receiver asks for in one call.
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = parse::size)]
    pub read_size: u64,
    /// Packets a batched or segmented call carries at most.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub batch: Option<u64>,
    /// Throughput of a mix of two sizes too: SMALL,FULL[,SHARE of small].
    #[arg(long, value_name = "MIX", value_parser = parse::mix)]
    pub mix: Option<Mix>,
    /// Sample the sizes of packets on the way, in the pilots; needs the right to raw packets.
    #[arg(long)]
    pub packet_sizes: bool,
    /// Offered loads: messages a second (1000,50k), or auto for a sweep of each transport's own
    /// capacity.
    #[arg(long, value_name = "RATES", default_value = "auto")]
    pub rate: String,
    /// How offered messages are spaced.
    #[arg(long, value_enum, default_value = "exponential")]
    pub arrivals: ArrivalsArg,
    /// Interface for link-layer transports.
    #[arg(long)]
    pub interface: Option<String>,
    /// Ethernet type for link-layer transports.
    #[arg(long, default_value = "0x88b5", value_parser = parse::ethertype)]
    pub ethertype: u16,
    /// Write down the packets of XTP contestants' engines: the first worker's into FILE, those of
    /// the next into FILE.2 and so on, 64 at most.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Probability of any false verdict in the whole race.
    #[arg(long, default_value = "5%", value_parser = parse::percent)]
    pub alpha: f64,
    /// Ratios within this of 1 count as equal.
    #[arg(long, value_name = "SHARE", default_value = "3%", value_parser = parse::percent)]
    pub equal_within: f64,
    /// Leave out the control, the baseline's second run in each block.
    #[arg(long)]
    pub no_control: bool,
    /// Write no HTML report.
    #[arg(long)]
    pub no_report: bool,
    /// Other hosts.
    #[command(flatten)]
    pub remote: crate::remote_race::RemoteArgs,
    /// Hosts, link and loads.
    #[command(flatten)]
    pub environment: crate::environment::EnvironmentArgs,
}

const RACE_EXAMPLES: &str = "Examples:
  towpath race
  towpath race tcp udp quic --sizes 64,1KiB --workload delay --busy-poll
  towpath race tcp tcp,congestion=bbr udp,buffers=4M   one transport, options of its own
  towpath race tcp tcp-batched --sizes 1..64KiB --blocks 5..20 --time 5m
  towpath race tcp+udp tcp --circuits 2          unlike circuits together: who gets what?
  towpath race udp --workload offered --rate 1k,10k,100k --arrivals fixed
  towpath race tcp --workload connect
  towpath race xtp --blocks 1 --trace xtp.trace
  towpath race tcp xtp --link rate=10mbit,delay=5ms,loss=1%
  towpath race tcp udp --link ether10 --link-load 0..3
  towpath race tcp udp --host-load 0..4@sender,0..4@receiver
  towpath race tcp raw-ether --interface eth0     the link layer, as root
  towpath race tcp udp quic --to lab2             against `towpath agent` on lab2
  towpath race tcp udp --to lab2,lab3 --together  one sender, two receivers at once";

impl RaceArgs {
    /// Whether messages leave the host, so that what stays within one cannot take part.
    pub fn leaves_host(&self) -> bool {
        !self.environment.link.is_empty() || self.remote.is_given()
    }
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("'{other}' is neither on nor off")),
    }
}
