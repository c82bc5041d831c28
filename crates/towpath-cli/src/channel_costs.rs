//! `towpath channel forward`, `remap` and `disseminate`: what it takes this machine to hand messages on.

use crate::parse::{size, whole};
use crate::turn_rows::TurnArgs;
use crate::{CliError, EXIT_OK};
use clap::Args;
use measure::passing_on::{
    Carrier, Copies, DisseminateTurn, FORWARDED_LENS, ForwardTurn, PassingPlan, REMAPPED_LEN_MAX,
    RemapTurn, Stage, TurnTime, Way, disseminate, forward, remap,
};
use serde::Serialize;
use serde_json::{Value, json as value};

/// Options of `towpath channel forward`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Three processes: the first makes messages, the second hands them on, the third reads them where they lie.
  0 copies  a slot of an arena is passed on by its number
  2 copies  the second process copies out of one ring and into the next
  4 copies  Unix sockets, into each of which and out of each of which the kernel copies
The first and the third touch the first 8 octets of a message only, beside the copies that are counted.

Examples:
  towpath channel forward
  towpath channel forward --sizes 64,16KiB --blocks 20 --out rows.jsonl"
)]
pub struct ForwardArgs {
    /// Octets of messages, from 8 to 64KiB.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = forwarded_len,
          default_value = "64,1KiB,4KiB,16KiB,64KiB")]
    pub sizes: Vec<u64>,
    /// How it is measured.
    #[command(flatten)]
    pub turns: TurnArgs,
}

/// Options of `towpath channel remap`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Two processes with one memory file, in whose pages the first leaves messages. The second has each at its own addresses:
  copied     by copying it from where it has the file mapped
  remapped   by mapping its pages there in place of the last message's, all at once
  by-faults  the same, each page when it is touched
It touches each page; the first writes the first 8 octets only.

Examples:
  towpath channel remap
  towpath channel remap --sizes 4KiB,1MiB --blocks 20 --out rows.jsonl"
)]
pub struct RemapArgs {
    /// Octets of messages: whole pages, up to 16MiB.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = remapped_len,
          default_value = "4KiB,16KiB,64KiB,256KiB,1MiB")]
    pub sizes: Vec<u64>,
    /// How it is measured.
    #[command(flatten)]
    pub turns: TurnArgs,
}

/// Options of `towpath channel disseminate`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "One process sends each message to several others, which read the first 8 octets of it:
  arena    it is written into a slot of one arena once, and each of them gets the slot's number
  rings    it is written into a ring of each of them
  sockets  it is sent through a Unix socket to each of them, which receives all of it
The slowest holds the sender back in each.

Examples:
  towpath channel disseminate
  towpath channel disseminate --receivers 16 --sizes 64,16KiB --out rows.jsonl"
)]
pub struct DisseminateArgs {
    /// Processes that get each message.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = whole::<1, 31, u32>)]
    pub receivers: u32,
    /// Octets of messages, from 8 to 64KiB.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = forwarded_len,
          default_value = "64,1KiB,4KiB,16KiB,64KiB")]
    pub sizes: Vec<u64>,
    /// How it is measured.
    #[command(flatten)]
    pub turns: TurnArgs,
}

/// The work of another process of `forward` or `remap`.
#[derive(Clone, Debug, Args)]
pub struct StageArgs {
    /// Its place.
    pub role: String,
    /// How messages get on.
    pub how: String,
    /// Octets of a message.
    pub size: String,
}

fn forwarded_len(text: &str) -> Result<u64, String> {
    let len = size(text)?;
    match FORWARDED_LENS.contains(&(len as usize)) {
        true => Ok(len),
        false => Err(format!(
            "a message of '{text}' is out of range, from 8 B to 64 KiB"
        )),
    }
}

fn remapped_len(text: &str) -> Result<u64, String> {
    let (len, page) = (size(text)?, rustix::param::page_size() as u64);
    match len > 0 && len.is_multiple_of(page) && len <= REMAPPED_LEN_MAX as u64 {
        true => Ok(len),
        false => Err(format!(
            "a message of '{text}' is not of whole pages; give a multiple of {page} B, up to 16 MiB"
        )),
    }
}

/// Runs `towpath channel forward`.
pub fn run_forward(args: &ForwardArgs) -> Result<u8, CliError> {
    let plan = plan(&args.sizes, &args.turns)?;
    let mut turns = Vec::new();
    forward(&plan, |turn| turns.push(*turn)).map_err(failed)?;
    let count = |copies: Copies| copies.count().to_string();
    let ways = Ways {
        scenario: "forward",
        factor: "copies",
        all: Copies::ALL.map(count),
        unit: " copies",
    };
    let of = |turn: &ForwardTurn| (count(turn.copies), turn.time);
    ways.finish(&args.turns, &plan.sizes, &turns, of)
}

/// Runs `towpath channel remap`.
pub fn run_remap(args: &RemapArgs) -> Result<u8, CliError> {
    let plan = plan(&args.sizes, &args.turns)?;
    let mut turns = Vec::new();
    remap(&plan, |turn| turns.push(*turn)).map_err(failed)?;
    let name = |way: Way| way.name().to_owned();
    let ways = Ways {
        scenario: "remap",
        factor: "way",
        all: Way::ALL.map(name),
        unit: "",
    };
    let of = |turn: &RemapTurn| (name(turn.way), turn.time);
    ways.finish(&args.turns, &plan.sizes, &turns, of)
}

/// Runs `towpath channel disseminate`.
pub fn run_disseminate(args: &DisseminateArgs) -> Result<u8, CliError> {
    let plan = plan(&args.sizes, &args.turns)?;
    let mut turns = Vec::new();
    disseminate(&plan, args.receivers, |turn| turns.push(*turn)).map_err(failed)?;
    let name = |carrier: Carrier| carrier.name().to_owned();
    let ways = Ways {
        scenario: "disseminate",
        factor: "carrier",
        all: Carrier::ALL.map(name),
        unit: "",
    };
    let of = |turn: &DisseminateTurn| (name(turn.carrier), turn.time);
    ways.finish(&args.turns, &plan.sizes, &turns, of)
}

/// Runs `towpath channel stage`.
pub fn run_stage(args: &StageArgs) -> Result<u8, CliError> {
    let stage = Stage::parse(&args.role, &args.how, &args.size);
    let stage = stage.ok_or_else(|| CliError::usage("a stage is started by towpath itself"))?;
    stage.run().map_err(failed)?;
    Ok(EXIT_OK)
}

fn failed(error: std::io::Error) -> CliError {
    CliError::failed(format!("cannot hand messages on: {error}"))
}

fn plan(sizes: &[u64], turns: &TurnArgs) -> Result<PassingPlan, CliError> {
    Ok(PassingPlan {
        program: std::env::current_exe().map_err(CliError::failed)?,
        sizes: sizes.iter().map(|size| *size as usize).collect(),
        blocks: turns.blocks,
        turn: turns.turn,
        seed: turns.seed,
    })
}

/// What a command measures, in each of several ways.
struct Ways {
    scenario: &'static str,
    /// What the ways vary, in rows.
    factor: &'static str,
    /// Their names.
    all: [String; 3],
    /// What stands behind a name in the table.
    unit: &'static str,
}

impl Ways {
    /// Writes rows to a file if wanted, and prints the turns, of each of which `of` gives the name of its way and its time.
    fn finish<T: Serialize>(
        &self,
        args: &TurnArgs,
        sizes: &[usize],
        turns: &[T],
        of: impl Fn(&T) -> (String, TurnTime),
    ) -> Result<u8, CliError> {
        let timed: Vec<(String, TurnTime)> = turns.iter().map(of).collect();
        let rows = timed.iter().map(|turn| self.row(turn));
        args.finish(rows, turns, || self.table(sizes, &timed))
    }

    /// A row in the form of a sweep: what was varied under `changes`, the block as the seed.
    fn row(&self, (way, time): &(String, TurnTime)) -> Value {
        value!({
            "scenario": self.scenario,
            "changes": [format!("{}={way}", self.factor), format!("size={}", time.size)],
            "seed": time.block,
            "ending": "complete",
            "message_us": time.message_us,
            "messages_per_s": time.messages_per_s,
        })
    }

    /// Medians of the time of a message, a line a size.
    fn table(&self, sizes: &[usize], timed: &[(String, TurnTime)]) -> String {
        let heads = self.all.iter();
        let heads: String = heads
            .map(|way| format!("{:>13}", format!("{way}{}", self.unit)))
            .collect();
        let mut text = format!("us a message\n{:>8}{heads}", "octets");
        for size in sizes {
            let times = self.all.iter().map(|way| {
                let own = timed.iter();
                let own = own.filter(|(name, time)| name == way && time.size == *size);
                let own: Vec<f64> = own.map(|(_, time)| time.message_us).collect();
                format!("{:>13.2}", stats::estimate::median(&own))
            });
            text.push_str(&format!("\n{size:>8}{}", times.collect::<String>()));
        }
        text
    }
}
