//! The command line.

use crate::{CliError, parse, sim, study};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, FromArgMatches, Parser, Subcommand};
use control::{Arrivals, Mix, Workload};
use measure::spec::ReplyLen;
use measure::turn_plan::TurnChoice;
use std::path::PathBuf;
use std::time::Duration;

/// Race transport protocols on your own workload and path.
///
/// `towpath race` with no arguments races the usual transports over the loopback in about a
/// minute and reports which is fastest, by how much, with what confidence, and why.
#[derive(Debug, Parser)]
#[command(name = "towpath", version, about, long_about, after_help = EXAMPLES)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "Examples:
  towpath race                                    the usual transports, one minute
  towpath race tcp unix-stream --sizes 1..16KiB   two of them, sizes doubling
  towpath race tcp udp --workload offered         open loop: where is the knee?
  towpath race tcp quic --series --link rate=20mbit,delay=10ms     windows, round trips and the queue over time
  towpath profile tcp --size 64,16KiB             CPU time of a message, by layer
  towpath doctor                                  what would distort measurements here
  towpath doctor --to lab2                        and on lab2, and on the path to it
  towpath compare results/a results/b --fail-on 3%

Man page and completions of a shell: towpath man, towpath completions bash (elvish, fish, powershell, zsh).
Exit codes: 0 success, 1 failure, 2 wrong usage, 3 regression (gate, compare --fail-on).";

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Race transports against one another.
    Race(Box<RaceArgs>),
    /// Race two builds, or two contestants, until it is decided whether the newer one is slower.
    #[command(after_help = crate::gate_command::GATE_HELP)]
    Gate(Box<crate::gate_command::GateArgs>),
    /// List the transports: which are available here, why others are not, and their properties.
    #[command(after_help = "Examples:\n  towpath transports\n  towpath transports --json")]
    Transports(OutputArgs),
    /// Report what would distort measurements on this machine, and the remedies.
    Doctor(crate::doctor::DoctorArgs),
    /// Write the HTML report of a result.
    Report(crate::results_commands::ReportArgs),
    /// Print the cost model of a result: time per message = fixed + per byte x size.
    #[command(after_help = "Examples:
  towpath race tcp unix-stream --sizes 1..64KiB --out sizes
  towpath fit sizes")]
    Fit(crate::results_commands::ResultArgs),
    /// Compare two results cell by cell.
    Compare(crate::results_commands::CompareArgs),
    /// Watch a running race, study or sweep from its own files.
    Watch(crate::watch::WatchArgs),
    /// Follow each cell over many results: verdicts between neighbours, and what changed in between.
    History(crate::history_command::HistoryArgs),
    /// Print the trials of a result as CSV, or write them in the forms of other tools.
    Export(crate::export_command::ExportArgs),
    /// Print the table and verdicts of a result.
    #[command(after_help = "Examples:
  towpath show results/a
  towpath show results/a --json")]
    Show(crate::results_commands::ShowArgs),
    /// Simulate scenarios in virtual time.
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// Reproduce published experiments.
    #[command(subcommand)]
    Study(study::StudyCommand),
    /// Profile the CPU time of a message by layer and procedure, from the user's call to the wire.
    Profile(crate::profile_command::ProfileArgs),
    /// Virtual hosts and a link on this machine, for your own programs.
    #[command(subcommand)]
    Testbed(crate::testbed_command::TestbedCommand),
    /// Tunnel the connections of any TCP program through XTP.
    Forward(crate::forward_command::ForwardArgs),
    /// Copy a file to one host or many over XTP, or receive files.
    Cp(crate::cp_command::CpArgs),
    /// Inspect live XTP endpoints; run an XTP router or multicast relay.
    #[command(subcommand)]
    Xtp(crate::xtp_command::XtpCommand),
    /// Send, receive or echo messages over SCTP, with one address or several.
    #[command(subcommand)]
    Sctp(crate::sctp_command::SctpCommand),
    /// Inspect live VMTP endpoints.
    #[command(subcommand)]
    Vmtp(crate::vmtp_command::VmtpCommand),
    /// Measure what ATM cells cost this machine.
    #[command(subcommand)]
    Cells(crate::cells_command::CellsCommand),
    /// A storage server over VMTP, and its client.
    #[command(subcommand)]
    Blocks(crate::blocks_command::BlocksCommand),
    /// Carry channels of shared memory to another host; measure what they save.
    #[command(subcommand)]
    Channel(crate::channel_command::ChannelCommand),
    /// Run the agent: trusted clients on other hosts may measure against this one.
    Agent(crate::agent_command::AgentArgs),
    /// Create, show and trust the keys of `agent` and `race --to`.
    #[command(subcommand)]
    Key(crate::key_command::KeyCommand),
    /// A worker of a race; started by towpath itself.
    #[command(hide = true)]
    Worker {
        /// File to which the endpoints of engines write their packet trace.
        #[arg(long)]
        trace: Option<PathBuf>,
        /// Folder for a capture of what crosses its rings, and of its cells.
        #[arg(long)]
        capture_rings: Option<PathBuf>,
        /// Print the version of the worker protocol, and exit.
        #[arg(long)]
        protocol: bool,
        /// Print what is to be known of a transport of this program, as JSON, and exit.
        #[arg(long, value_name = "NAME")]
        transport: Option<String>,
        /// Pause both ends for this share of the time, in throughput: a known difference for tests of verdicts.
        #[arg(long, value_name = "SHARE", value_parser = parse::percent)]
        slower_by: Option<f64>,
    },
    /// The process of an agent that keeps the right to raw sockets; started by towpath itself.
    #[command(hide = true)]
    RawSockets(crate::agent_command::RawSocketsArgs),
    /// A unit of host load; started by towpath itself.
    #[command(hide = true)]
    LoadUnit(crate::environment::LoadUnitArgs),
    /// A run of a study; started by towpath itself.
    #[command(hide = true)]
    StudyRun {
        /// Process of the study, with which the run ends.
        #[arg(long)]
        parent: u32,
        /// The run's words.
        #[arg(last = true)]
        words: Vec<String>,
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
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Options of commands without others.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What each workload measures, in the order of [`Workload::ALL`].
const WORKLOAD_HELP: [&str; 7] = [
    "Messages as fast as possible, one way",
    "Request and reply, one at a time: the round-trip time",
    "Messages at scheduled times whether or not the transport keeps up (open loop)",
    "Connect, one request and reply, close",
    "Requests of several clients and their replies: each client calls again when it is answered (closed loop)",
    "Short requests and replies of 64 B, first alone, then beside bulk of --sizes on --circuits other circuits of the same path",
    "Into a wire that copies packets and forgets them: time of a send, copies and the rest. For engines that wait for no answer (vmtp,repeat=1)",
];

/// Parses the name of a workload.
pub(crate) fn workload() -> impl TypedValueParser<Value = Workload> {
    let all = Workload::ALL.iter().zip(WORKLOAD_HELP);
    let values = all.map(|((name, _), help)| PossibleValue::new(*name).help(help));
    PossibleValuesParser::new(values)
        .try_map(|name| Workload::named(&name).ok_or("there is no such workload"))
}

/// Parses how open-loop messages are spaced.
fn arrivals() -> impl TypedValueParser<Value = Arrivals> {
    PossibleValuesParser::new([
        PossibleValue::new("fixed").help("Equal gaps"),
        PossibleValue::new("exponential").help("Exponential gaps (a Poisson process)"),
    ])
    .map(|name| match name.as_str() {
        "fixed" => Arrivals::Fixed,
        _ => Arrivals::Exponential,
    })
}

/// Options of a race.
#[derive(Clone, Debug, Args)]
#[command(after_help = RACE_EXAMPLES)]
pub struct RaceArgs {
    /// Transports to race, baseline first, each optionally with its own options
    /// (tcp,congestion=bbr); several joined by + run concurrently (tcp+udp). program=PATH has another
    /// build of towpath run that contestant. Default: tcp
    /// tcp-batched udp udp-segmented unix-stream quic xtp bare. `towpath transports` lists all
    /// transports and their options.
    #[arg(value_name = "TRANSPORT[,KEY=VALUE...]")]
    pub transports: Vec<String>,
    /// Race all transports available on this host.
    #[arg(long, conflicts_with = "transports")]
    pub all: bool,
    /// Programs of other projects that can race as exec:NAME, as a TOML file; may be repeated. Known
    /// without a file: exec:iperf3 exec:sockperf exec:sockperf-tcp exec:netperf exec:quinn-perf exec:nc.
    #[arg(long, value_name = "FILE")]
    pub contestants: Vec<PathBuf>,
    /// Programs whose definition stands in the place of their name.
    #[arg(skip)]
    pub inline: measure::exec::Definitions,
    /// Message sizes: a list (64,1KiB) of sizes, doubling ranges (1..16KiB) and ranges with a step
    /// (68..1092+4), sizes with their neighbours (around:1KiB,1448), or those at which the cost of a
    /// message jumps, found by pilots (steps:1..64KiB).
    #[arg(long, value_name = "SIZES", default_value = "64,1KiB,16KiB")]
    pub sizes: String,
    /// Workload to measure; may be repeated, or a list.
    #[arg(long, short, value_parser = workload(), value_delimiter = ',', default_values = ["throughput", "delay"])]
    pub workload: Vec<Workload>,
    /// The contestant the others are compared with; default: the first.
    #[arg(long)]
    pub baseline: Option<String>,
    /// Concurrent circuits of each transport: a number, or a list to compare (1,2,4).
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1",
          value_parser = parse::whole::<1, 64, u32>)]
    pub circuits: Vec<u32>,
    /// Blocks: each cell is measured once per block. With a range, the race ends at an interim analysis (after 3, 5, 10
    /// or 20 blocks) at which every verdict is decided, and has no more blocks than the time allows. Default: 10, fewer where the time does not suffice.
    #[arg(long, value_name = "N or MIN..MAX", value_parser = parse::blocks)]
    pub blocks: Option<(u32, u32)>,
    /// Time for the whole race. Blocks asked for run even when they take longer.
    #[arg(long, default_value = "60s", value_parser = parse::time)]
    pub time: Duration,
    /// Measuring time of each trial; default: derived from the pilots.
    #[arg(long, value_parser = parse::time)]
    pub trial: Option<Duration>,
    /// Let the contestants of a cell take turns of about 10 ms, the others paused, so that all see the
    /// same machine: auto where pausing changes nothing (throughput and delay on this host), on to
    /// refuse a race in which they cannot, off to run trials back to back.
    #[arg(long, value_name = "auto, on or off", default_value = "auto", value_parser = parse::turns)]
    pub turns: TurnChoice,
    /// Counted length of a turn, from 10ms to 50ms; default: 10ms. Shorter ones see the same machine
    /// better, longer ones lose less time: each has 1.5 ms that do not count.
    #[arg(long, value_name = "TIME", value_parser = parse::turn_time)]
    pub turn_time: Option<Duration>,
    /// Record over time what the sending connection says of itself - congestion window, round trip,
    /// retransmissions, rates - beside the goodput, in throughput, delay and offered. Trials then run back
    /// to back. What says nothing, as udp, is named with the reason.
    #[arg(long)]
    pub series: bool,
    /// Take on the race in FOLDER, with its contestants and options: the questions that it left open are
    /// asked again, in a new folder that names it. What comes is new evidence, judged by itself. Only
    /// --time, --blocks, --trial, --seed, --label and the options of output may be given beside it.
    #[arg(long, value_name = "FOLDER")]
    pub resume: Option<PathBuf>,
    /// Seed of the order of trials and all random choices; default: from the clock.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Folder of the result; default: a new one in results/.
    #[arg(long, short)]
    pub out: Option<PathBuf>,
    /// A label of the run, kept in its plan: commit=1f3a, rack=7. May be repeated; `towpath history
    /// --by KEY` sorts runs by it.
    #[arg(long, value_name = "KEY=TEXT", value_parser = parse::label)]
    pub label: Vec<(String, String)>,
    /// Print the summary as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Use IPv6.
    #[arg(short = '6')]
    pub ipv6: bool,
    /// The listening side sends.
    #[arg(long, conflicts_with = "bidir")]
    pub reverse: bool,
    /// Both sides send at once.
    #[arg(long)]
    pub bidir: bool,
    /// Exchange the CPUs (and priorities) of the two sides.
    #[arg(long)]
    pub swap: bool,
    /// CPUs of sender and receiver (0,1), one for both (0), or none for no pinning.
    #[arg(long, value_name = "CPUS", value_parser = parse::pins)]
    pub pin: Option<(Option<u32>, Option<u32>)>,
    /// Nice values: sender=-20,receiver=19.
    #[arg(long, value_name = "VALUES", value_parser = parse::priorities, allow_hyphen_values = true)]
    pub priority: Option<(Option<i32>, Option<i32>)>,
    /// Busy-poll with non-blocking calls instead of sleeping: both ends of delay trials, receivers of throughput trials.
    #[arg(long)]
    pub busy_poll: bool,
    /// Socket buffer size; a list is swept.
    #[arg(long, value_name = "SIZES")]
    pub buffers: Option<String>,
    /// TCP_NODELAY on or off; default: on for delay, off for throughput.
    #[arg(long, value_name = "on or off", value_parser = on_or_off)]
    pub nodelay: Option<bool>,
    /// TCP congestion control; default: cubic, or the system's where only root may set cubic.
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Buffer size of the receiver's read calls on byte streams.
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = parse::size)]
    pub read_size: u64,
    /// Maximum packets per batched or segmented call.
    #[arg(long, value_parser = parse::whole::<1, 1024, u64>)]
    pub batch: Option<u64>,
    /// Measure throughput also for a mix of two sizes: SMALL,FULL[,SHARE of small].
    #[arg(long, value_name = "MIX", value_parser = parse::mix)]
    pub mix: Option<Mix>,
    /// Sample the packet sizes on the wire during pilots; needs CAP_NET_RAW.
    #[arg(long)]
    pub packet_sizes: bool,
    /// Offered loads: messages per second (1000,50k), or auto to sweep fractions of each transport's own capacity.
    #[arg(long, value_name = "RATES", default_value = "auto")]
    pub rate: String,
    /// Inter-arrival times of offered messages.
    #[arg(long, value_parser = arrivals(), default_value = "exponential")]
    pub arrivals: Arrivals,
    /// Clients of each transport in workload transactions; a list is swept. Default: 1.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = parse::whole::<1, CLIENTS_MAX, u32>)]
    pub clients: Vec<u32>,
    /// Replies of workload transactions: a size, or as long as the request. Default: same.
    #[arg(long, value_name = "BYTES or same", value_parser = parse::reply)]
    pub reply: Option<ReplyLen>,
    /// Time that a server of workload transactions takes for each request, up to 10s. Default: none.
    #[arg(long, value_name = "TIME", value_parser = parse::service)]
    pub service: Option<Duration>,
    /// Interface for link-layer transports.
    #[arg(long)]
    pub interface: Option<String>,
    /// EtherType for link-layer transports.
    #[arg(long, default_value = "0x88b5", value_parser = parse::ethertype)]
    pub ethertype: u16,
    /// Trace the packets of bare and of XTP contestants: the first worker's to FILE, the next one's to FILE.2 and so on, at most 64 files.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Maximum probability of any false verdict in the whole race.
    #[arg(long, default_value = "5%", value_parser = parse::percent)]
    pub alpha: f64,
    /// Ratios within this of 1 count as equal.
    #[arg(long, value_name = "SHARE", default_value = "3%", value_parser = parse::percent)]
    pub equal_within: f64,
    /// Omit the control, the baseline's second trial in each block.
    #[arg(long)]
    pub no_control: bool,
    /// Write no HTML report.
    #[arg(long)]
    pub no_report: bool,
    /// More metrics in each cell of the tables: p99 (delay), cpu (per message, both ends), mbit, bytes.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = report::Extra::parse)]
    pub show: Vec<report::Extra>,
    /// Other races on this machine.
    #[command(flatten)]
    pub alone: crate::alone::AloneArgs,
    /// Other hosts.
    #[command(flatten)]
    pub remote: crate::remote_race::RemoteArgs,
    /// Trials that end after their messages.
    #[command(flatten)]
    pub messages: crate::message_counts::MessageCountArgs,
    /// Several receivers.
    #[command(flatten)]
    pub receivers: crate::fan_out::FanOutArgs,
    /// Hosts, link and loads.
    #[command(flatten)]
    pub environment: crate::environment::EnvironmentArgs,
}

const RACE_EXAMPLES: &str = "Examples:
  towpath race
  towpath race tcp udp quic --sizes 64,1KiB --workload delay --busy-poll
  towpath race tcp tcp,congestion=bbr udp,buffers=4M   options per contestant
  towpath race xtp xtp,program=./old/towpath     two builds in one race
  towpath race tcp exec:iperf3 -w throughput     against another project's program
  towpath race tcp 'exec:mine=./mine -l {port} :: ./mine -c {host} {port} :: ([0-9.]+) Mbit/s :: Mbit/s' -w throughput
  towpath race tcp exec:mine --contestants mine.toml   against a program of your own
  towpath race tcp tcp-batched --sizes 1..64KiB --blocks 5..20 --time 5m
  towpath race tcp+udp tcp --circuits 2          concurrent circuits: shares and fairness
  towpath race xtp tcp --circuits 1,2,4,8        the same with more and more of them
  towpath race udp --workload offered --rate 1k,10k,100k --arrivals fixed
  towpath race tcp udp -w throughput --sizes 1KiB --messages 500,1000,4000   trials of so many messages
  towpath race tcp --workload connect
  towpath race vmtp tcp -w transactions --clients 1,4,16 --reply 512 --service 100us
  towpath race vmtp,repeat=1 vmtp-aal34,repeat=1 -w send --sizes 68..1092+128
  towpath race tcp quic xtp -w responsive --sizes 16KiB --link rate=100mbit,delay=5ms
  towpath race xtp --blocks 1 --trace xtp.trace
  towpath race --resume results/20261125-101500-race --time 5m   what it left open
  towpath race tcp udp --label commit=1f3a        for `towpath history --by commit`
  towpath race tcp xtp --link rate=10mbit,delay=5ms,loss=1%
  towpath race tcp mptcp --link rate=20mbit+rate=10mbit,delay=9ms     two links side by side
  towpath race tcp udp --link ether10 --link-load 0..3
  towpath race tcp udp --host-load 0..4@sender,0..4@receiver
  towpath race tcp raw-ether --interface eth0     the link layer, as root
  towpath race tcp udp quic --to lab2             against `towpath agent` on lab2
  towpath race tcp udp --to lab2,lab3 --together  one sender, two receivers at once
  towpath race tcp xtp xtp-multicast -w throughput --fan-out 4    each message to four receivers";

/// Clients of a transport, at most: each has a thread at either end.
const CLIENTS_MAX: u64 = 10_000;

impl RaceArgs {
    /// The race of the words behind `towpath race`. Fails with the first wrong argument, on one line.
    pub(crate) fn of_words<'a>(
        words: impl IntoIterator<Item = &'a str>,
    ) -> Result<RaceArgs, CliError> {
        let command = RaceArgs::augment_args(clap::Command::new("race"));
        let parsed = command.try_get_matches_from(std::iter::once("race").chain(words));
        let parsed = parsed.and_then(|matches| RaceArgs::from_arg_matches(&matches));
        parsed.map_err(|error| CliError::usage(crate::one_line(&error.to_string())))
    }

    /// Whether messages leave the host, so that host-local transports cannot take part.
    pub fn leaves_host(&self) -> bool {
        !self.environment.link.is_empty() || self.remote.is_given()
    }

    /// Whether each trial has circuits between all pairs of hosts.
    pub(crate) fn runs_pairs_together(&self) -> bool {
        self.remote.together || self.receivers.most().is_some()
    }
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("'{other}' is neither on nor off")),
    }
}
