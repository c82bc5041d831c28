//! `towpath cells`: what it takes this machine to cut packets into cells.

use crate::CliError;
use crate::turn_rows::TurnArgs;
use clap::{Args, Subcommand};
use measure::segmentation::{Rung, SegmentationPlan, SegmentationTurn, is_packet_len, measure};
use serde_json::{Value, json as value};

/// Subcommands of `towpath cells`.
#[derive(Clone, Debug, Subcommand)]
pub enum CellsCommand {
    /// Measure how long packets take to be cut into cells, on four rungs.
    Segment(SegmentArgs),
}

/// Options of `towpath cells segment`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Rungs: fixed-words fills the cells with one word, ready-cells copies cells that are ready, split-packets cuts one
packet that is ready, real-packets cuts packets that VMTP builds from messages in memory. The last two with special
cases and without: inner cells cut from where they lie, and checks of many cells at once. Cells are those of
sar=study, 44 octets of a packet in each.

Examples:
  towpath cells segment
  towpath cells segment --lengths 68,92,132 --blocks 20 --out rows.jsonl"
)]
#[command(mut_args(|arg| if arg.get_id() == "turn" { arg.default_value("10ms") } else { arg }))]
pub struct SegmentArgs {
    /// Octets of packets: 68, or 92 to 1092 in steps of 8, as VMTP makes them.
    #[arg(long, value_name = "OCTETS", value_delimiter = ',', value_parser = parse_len,
          default_values_t = [68, 92, 132, 140, 220, 228, 484, 492, 1012, 1020, 1092])]
    pub lengths: Vec<usize>,
    /// How it is measured.
    #[command(flatten)]
    pub turns: TurnArgs,
}

fn parse_len(text: &str) -> Result<usize, String> {
    let parsed = text.parse().ok().filter(|octets| is_packet_len(*octets));
    parsed.ok_or_else(|| {
        format!(
            "VMTP makes no packet of '{text}' octets; give 68, or 92 to 1092 in steps of 8, such as 92 or 132"
        )
    })
}

/// Runs the command.
///
/// # Errors
///
/// When a file cannot be written.
pub fn run(command: &CellsCommand) -> Result<u8, CliError> {
    let CellsCommand::Segment(args) = command;
    let plan = SegmentationPlan {
        lengths: args.lengths.clone(),
        blocks: args.turns.blocks,
        turn: args.turns.turn,
        seed: args.turns.seed,
    };
    let mut turns = Vec::new();
    measure(&plan, |turn| turns.push(*turn));
    let rows = turns.iter().map(row_of);
    args.turns.finish(rows, &turns, || table(&plan, &turns))
}

/// A row of a turn, in the form of a sweep: what was varied under `changes`, the block as the seed.
fn row_of(turn: &SegmentationTurn) -> Value {
    value!({
        "scenario": "segmentation",
        "changes": [
            format!("rung={}", turn.rung.name()),
            format!("special={}", if turn.special { "on" } else { "off" }),
            format!("packet={}", turn.packet),
        ],
        "seed": turn.block,
        "ending": "complete",
        "cells": turn.cells,
        "packet_ns": turn.packet_ns,
        "packets_per_s": turn.packets_per_s,
        "cells_per_s": turn.cells_per_s,
        "mbit_per_s": turn.mbit_per_s,
    })
}

/// Columns of the table: a rung, and whether with special cases.
const COLUMNS: [(Rung, bool, &str); 6] = [
    (Rung::FixedWords, true, "fixed words"),
    (Rung::ReadyCells, true, "ready cells"),
    (Rung::SplitPackets, true, "split"),
    (Rung::SplitPackets, false, "split, plain"),
    (Rung::RealPackets, true, "real"),
    (Rung::RealPackets, false, "real, plain"),
];

/// Medians of the time of a packet, a line a length.
fn table(plan: &SegmentationPlan, turns: &[SegmentationTurn]) -> String {
    let heads = COLUMNS.map(|(_, _, head)| format!("{head:>13}"));
    let mut text = format!(
        "ns a packet\n{:>8}{:>7}{}",
        "octets",
        "cells",
        heads.concat()
    );
    for packet in &plan.lengths {
        let of = |rung, special| {
            let own = turns
                .iter()
                .filter(|turn| (turn.rung, turn.special, turn.packet) == (rung, special, *packet));
            let times: Vec<f64> = own.map(|turn| turn.packet_ns).collect();
            format!("{:>13.1}", stats::estimate::median(&times))
        };
        let times = COLUMNS.map(|(rung, special, _)| of(rung, special));
        let cells = turns.iter().find(|turn| turn.packet == *packet);
        let cells = cells.map_or(0, |turn| turn.cells);
        text.push_str(&format!("\n{packet:>8}{cells:>7}{}", times.concat()));
    }
    text
}
