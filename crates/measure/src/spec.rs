//! Parameters of a race, and the cells they span.

mod fan_out;
mod message_counts;
mod transactions;

use crate::exec::Definitions;
use crate::size_steps::SizeRange;
use crate::turn_plan::TurnChoice;
use control::{Arrivals, CircuitOptions, Mix};
use loadgen::turn_schedule::TURN_S;
use results::{BlockPlan, Cell};
use std::collections::BTreeMap;

pub use fan_out::{FanOut, FanOutChoice, RECEIVERS_MAX};
pub use message_counts::MessageCounts;
pub use transactions::{ReplyLen, TransactionLoad, TransactionPlan};

/// All parameters of a race.
#[derive(Clone, Debug)]
pub struct RaceSpec {
    /// The command line as typed, for the plan.
    pub command: Vec<String>,
    /// Contestants: labels of transports with their options, or several joined by `+` that run
    /// together; see [`loadgen::contestant`].
    pub contestants: Vec<String>,
    /// The contestant the others are compared with.
    pub baseline: String,
    /// Workloads, in order: `throughput`, `delay`, `offered`, `connect`, `transactions`,
    /// `responsive`, `send`.
    pub workloads: Vec<String>,
    /// Message sizes, bytes; the ends, where pilots look for sizes.
    pub sizes: Vec<u64>,
    /// Where pilots look for the sizes at which the cost of a message jumps; None for the sizes as they are.
    pub size_steps: Option<SizeRange>,
    /// How many messages a trial has.
    pub messages: MessageCounts,
    /// Two sizes in random order, as one more contest of throughput.
    pub mix: Option<Mix>,
    /// Concurrent circuits of each transport; several numbers are a factor.
    pub circuits: Vec<u32>,
    /// Socket buffers to sweep, bytes; empty for the system's default.
    pub buffers: Vec<u64>,
    /// Offered loads: messages a second, or percentages of each transport's capacity.
    pub loads: Loads,
    /// How messages of an open loop are spaced.
    pub arrivals: Arrivals,
    /// Clients, replies and servers of workload `transactions`.
    pub transactions: TransactionPlan,
    /// Options of the circuits.
    pub circuit_options: CircuitOptions,
    /// Which side sends.
    pub direction: Direction,
    /// Several receivers of one sender, each number a factor; empty for one.
    pub fan_out: Vec<FanOut>,
    /// CPUs of the sending (client) and the receiving (server) side.
    pub pin: (Option<u32>, Option<u32>),
    /// Nice values of the two sides.
    pub priority: (Option<i32>, Option<i32>),
    /// Busy-poll instead of sleeping: both ends of delay trials, receivers of throughput trials.
    pub busy_poll: bool,
    /// Number of blocks, and interim looks.
    pub blocks: BlockPlan,
    /// Whether the baseline runs twice a block, as A/A control.
    pub control: bool,
    /// Whether contestants take turns.
    pub turns: TurnChoice,
    /// Counted length of a turn, seconds.
    pub turn_s: f64,
    /// Probability of any false verdict.
    pub alpha: f64,
    /// Ratios within 1 +- this are equal (equivalence margin).
    pub equal_within: f64,
    /// Seconds for everything.
    pub time_s: f64,
    /// Seconds of a trial; None to divide the time.
    pub trial_s: Option<f64>,
    /// Sample the sizes of packets in pilots.
    pub packet_sizes: bool,
    /// Record what connections and the link's queue say of themselves over time.
    pub series: bool,
    /// Seed of all random choices.
    pub seed: u64,
    /// The programs that contestants `exec:NAME` are, by name.
    pub programs: Definitions,
    /// Contests that do not run, because an older race that is taken on decided them.
    pub settled: Vec<Cell>,
    /// Further entries of the plan, by name, e.g. `class.tcp`.
    pub notes: BTreeMap<String, String>,
}

impl RaceSpec {
    /// A race of one block without A/A control, for callers other than the command line. The first
    /// contestant is the baseline, and trials run back to back. Messages have 1000 bytes, open loops offer 1000 messages a
    /// second, and workers are not pinned.
    pub fn one_block(contestants: &[&str], workloads: &[&str]) -> RaceSpec {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        RaceSpec {
            command: Vec::new(),
            contestants: owned(contestants),
            baseline: contestants.first().copied().unwrap_or_default().to_owned(),
            workloads: owned(workloads),
            sizes: vec![1000],
            size_steps: None,
            messages: MessageCounts::ByTime,
            mix: None,
            circuits: vec![1],
            buffers: Vec::new(),
            loads: Loads::PerSecond(vec![1000.0]),
            arrivals: Arrivals::Fixed,
            transactions: TransactionPlan::default(),
            circuit_options: CircuitOptions::default(),
            direction: Direction::Forward,
            fan_out: Vec::new(),
            pin: (None, None),
            priority: (None, None),
            busy_poll: false,
            blocks: BlockPlan {
                min: 1,
                max: 1,
                looks: vec![1],
            },
            control: false,
            turns: TurnChoice::Off,
            turn_s: TURN_S,
            alpha: 0.05,
            equal_within: 0.03,
            time_s: 60.0,
            trial_s: None,
            packet_sizes: false,
            series: false,
            seed: 1,
            programs: Definitions::new(),
            settled: Vec::new(),
            notes: BTreeMap::new(),
        }
    }
}

/// Which side of a circuit sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The connecting side.
    #[default]
    Forward,
    /// The listening side.
    Reverse,
    /// Both at once.
    Both,
}

/// The loads of workload `offered`.
#[derive(Clone, Debug, PartialEq)]
pub enum Loads {
    /// Messages a second.
    PerSecond(Vec<f64>),
    /// Per cent of the capacity that a closed-loop pilot finds.
    Percent(Vec<u32>),
}

/// The automatic sweep: far below the knee, around it, beyond it.
pub const SWEEP_PERCENT: [u32; 8] = [10, 30, 50, 70, 80, 90, 100, 115];

/// One contest: a cell without its transport, which all contestants run back to back.
#[derive(Clone, Debug, PartialEq)]
pub struct Contest {
    /// The factors.
    pub cell: Cell,
    /// The workload.
    pub workload: control::Workload,
    /// Bytes of a message; the mean of a mix.
    pub size: u64,
    /// The mix, if it is one.
    pub mix: Option<Mix>,
    /// Messages of each circuit; None for as many as the time allows.
    pub messages: Option<u64>,
    /// Concurrent circuits of each transport; clients have one each instead.
    pub circuits: u32,
    /// Several receivers of one sender.
    pub fan_out: Option<FanOut>,
    /// Socket buffers.
    pub buffers: Option<u64>,
    /// Offered load: messages a second.
    pub rate_per_s: Option<f64>,
    /// Offered load: per cent of the contestant's capacity.
    pub load_percent: Option<u32>,
    /// The transactions, where they are the workload.
    pub transactions: Option<TransactionLoad>,
    /// Index of the environment's setting it runs in.
    pub setting: usize,
}

/// Each contest in each setting of the environment.
pub(crate) fn in_each_setting(contests: &[Contest], settings: &[Cell]) -> Vec<Contest> {
    let in_setting = |(setting, factors): (usize, &Cell)| {
        let all = contests.iter().map(move |contest| {
            let mut contest = contest.clone();
            let factors = factors
                .0
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()));
            contest.cell.0.extend(factors);
            contest.setting = setting;
            contest
        });
        all.collect::<Vec<_>>()
    };
    settings.iter().enumerate().flat_map(in_setting).collect()
}

/// Contests that have a pilot: one for all loads of a sweep, whose percentages thus refer to the
/// same capacity, and one for all numbers of messages.
pub(crate) fn pilot_contests(contests: &[Contest]) -> Vec<usize> {
    let all = 0..contests.len();
    all.filter(|&contest| pilot_of(contests, contest) == contest)
        .collect()
}

/// The contest whose pilot applies to this one.
pub(crate) fn pilot_of(contests: &[Contest], contest: usize) -> usize {
    let shape = |at: usize| {
        let cell = &contests[at].cell;
        let cell = cell.without(Cell::LOAD_PERCENT).without(Cell::RATE);
        cell.without(Cell::MESSAGES)
    };
    let wanted = shape(contest);
    (0..contest)
        .find(|&other| shape(other) == wanted)
        .unwrap_or(contest)
}

impl RaceSpec {
    /// All contests, in the order of the plan.
    pub fn contests(&self) -> Vec<Contest> {
        let mut contests = Vec::new();
        for workload in &self.workloads {
            for contest in self.contests_of(workload) {
                let each = self.at_each_number_of_circuits(contest).into_iter();
                let each = each.flat_map(|one| fan_out::with_each(&self.fan_out, one));
                contests.extend(each.flat_map(|one| self.at_each_buffer_size(one)));
            }
        }
        contests
    }

    /// The values of the options, by name, for the plan.
    pub fn options(&self) -> BTreeMap<String, String> {
        let mut options = self.notes.clone();
        let mut put = |name: &str, value: String| options.insert(name.to_owned(), value);
        put("circuits", list(&self.circuits).unwrap_or_default());
        if self.series {
            put("series", "on".to_owned());
        }
        put("turns", self.turns.name().to_owned());
        put("direction", format!("{:?}", self.direction).to_lowercase());
        if let Some(fan_out) = list(&self.fan_out) {
            put("fan_out", fan_out);
        }
        if let Some((name, value)) = self.messages.option() {
            put(name, value);
        }
        put("busy_poll", self.busy_poll.to_string());
        put("read_len", self.circuit_options.read_len.to_string());
        put("congestion", self.circuit_options.congestion.clone());
        put(
            "family",
            if self.circuit_options.ipv6 {
                "IPv6"
            } else {
                "IPv4"
            }
            .into(),
        );
        put("arrivals", format!("{:?}", self.arrivals).to_lowercase());
        for (name, cpu) in [("pin.sender", self.pin.0), ("pin.receiver", self.pin.1)] {
            put(name, cpu.map_or("none".into(), |cpu| cpu.to_string()));
        }
        for (name, nice) in [
            ("priority.sender", self.priority.0),
            ("priority.receiver", self.priority.1),
        ] {
            if let Some(nice) = nice {
                put(name, nice.to_string());
            }
        }
        let maybe = [
            (
                "nodelay",
                self.circuit_options.nodelay.map(|on| on.to_string()),
            ),
            (
                "batch",
                self.circuit_options.batch.map(|len| len.to_string()),
            ),
            ("interface", self.circuit_options.interface.clone()),
            ("buffers", list(&self.buffers)),
            ("mix", self.mix.as_ref().map(mix_text)),
            ("loads", self.loads_text()),
        ];
        for (name, value) in maybe {
            if let Some(value) = value {
                put(name, value);
            }
        }
        if self.has_transactions() {
            for (name, value) in self.transactions.options() {
                put(name, value);
            }
        }
        if self.circuit_options.interface.is_some() {
            put(
                "ethertype",
                format!("{:#06x}", self.circuit_options.ethertype),
            );
        }
        options
    }

    /// The loads, where a workload has any.
    fn loads_text(&self) -> Option<String> {
        if !self.workloads.iter().any(|name| name == "offered") {
            return None;
        }
        match &self.loads {
            Loads::PerSecond(rates) => list(rates).map(|rates| format!("{rates} /s")),
            Loads::Percent(parts) => list(parts).map(|parts| format!("{parts} % of capacity")),
        }
    }

    /// The largest number of circuits that a transport has at a time.
    pub fn circuits_max(&self) -> u32 {
        let clients = self.transactions.clients.iter().copied();
        let clients = clients.filter(|_| self.has_transactions());
        let short = u32::from(self.workloads.iter().any(|name| name == "responsive"));
        clients
            .chain(self.circuits.iter().map(|circuits| circuits + short))
            .max()
            .unwrap_or(1)
    }

    fn has_transactions(&self) -> bool {
        self.workloads.iter().any(|name| name == "transactions")
    }

    fn contests_of(&self, workload: &str) -> Vec<Contest> {
        let kind = workload_named(workload);
        let base = Cell::default().with(Cell::WORKLOAD, workload);
        let plain = |size: u64| Contest {
            cell: base.clone().with(Cell::SIZE, size),
            workload: kind,
            size,
            mix: None,
            messages: None,
            circuits: 1,
            fan_out: None,
            buffers: None,
            rate_per_s: None,
            load_percent: None,
            transactions: None,
            setting: 0,
        };
        let sizes = self.messages.sizes(&self.sizes);
        let of_sizes = sizes.into_iter().map(plain).collect();
        let mut contests = self.messages.contests(of_sizes);
        if kind == control::Workload::Offered {
            contests = contests
                .into_iter()
                .flat_map(|contest| self.at_each_load(contest))
                .collect();
        }
        if kind == control::Workload::Transactions {
            contests = contests
                .into_iter()
                .flat_map(|contest| self.transactions.contests(contest))
                .collect();
        }
        if let (Some(mix), control::Workload::Throughput) = (self.mix, kind) {
            let small = u64::from(mix.small_percent);
            let mean = (mix.small * small + mix.full * (100 - small)) / 100;
            let mut contest = plain(mean);
            contest.cell = contest.cell.with("mix", mix_text(&mix));
            contest.mix = Some(mix);
            contests.push(contest);
        }
        contests
    }

    fn at_each_load(&self, contest: Contest) -> Vec<Contest> {
        let at = |name: &str, value: u64| {
            let mut contest = contest.clone();
            contest.cell = contest.cell.with(name, value);
            contest
        };
        match &self.loads {
            Loads::PerSecond(rates) => rates
                .iter()
                .map(|&rate| Contest {
                    rate_per_s: Some(rate),
                    ..at("rate_per_s", rate as u64)
                })
                .collect(),
            Loads::Percent(parts) => parts
                .iter()
                .map(|&part| Contest {
                    load_percent: Some(part),
                    ..at("load_percent", u64::from(part))
                })
                .collect(),
        }
    }

    /// Clients of transactions have a circuit each, whatever the number.
    fn at_each_number_of_circuits(&self, contest: Contest) -> Vec<Contest> {
        if contest.workload == control::Workload::Transactions {
            return vec![contest];
        }
        let is_factor = self.circuits.len() > 1;
        let with = |&circuits: &u32| {
            let mut contest = contest.clone();
            contest.circuits = circuits;
            if is_factor || circuits > 1 {
                contest.cell = contest.cell.with(Cell::CIRCUITS, u64::from(circuits));
            }
            contest
        };
        self.circuits.iter().map(with).collect()
    }

    fn at_each_buffer_size(&self, contest: Contest) -> Vec<Contest> {
        if self.buffers.len() <= 1 {
            let buffers = self.buffers.first().copied();
            return vec![Contest { buffers, ..contest }];
        }
        let with = |&len: &u64| Contest {
            cell: contest.cell.clone().with("buffers", len),
            buffers: Some(len),
            ..contest.clone()
        };
        self.buffers.iter().map(with).collect()
    }
}

/// `70 % 64 B, rest 1400 B`.
fn mix_text(mix: &Mix) -> String {
    let Mix {
        small,
        full,
        small_percent,
    } = mix;
    format!("{small_percent} % {small} B, rest {full} B")
}

/// Comma-separated values; None when there are none.
fn list(values: &[impl ToString]) -> Option<String> {
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(","))
}

/// The workload of that name; `throughput` for unknown names, which the command line refuses.
pub fn workload_named(workload: &str) -> control::Workload {
    control::Workload::named(workload).unwrap_or(control::Workload::Throughput)
}
