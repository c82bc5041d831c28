//! ATM cells below any protocol: AAL3/4 and AAL5 as an [`engine::Layer`].
//!
//! A packet of the protocol above is cut into pieces of 44 octets (AAL3/4) or 48 (AAL5), each in a cell
//! of 53 octets; whole cells, back to back, are the frames of the wire below. The receiver checks the
//! header of each cell, puts packets together, and gives up those that lack a cell or take too long. On
//! a real wire frames get lost, in the simulator single cells do.
//!
//! A walk through the crate, from the outside in:
//!
//! * [`config`] - configuration, with the reason for each default, and what does not fit together.
//! * [`endpoint`] - the layer [`Cells`]; it only dispatches.
//! * [`counters`] - what was counted; the names of SMDS where it has one.
//! * `outgoing` - cells on their way to the wire, frames, and packets whose cells alternate.
//! * `partial_table` - packets under way: by key, with a deadline, bounded.
//! * `repaired` - AAL3/4 whose missing cells are asked for again.
//! * [`procedure`] - `segment`, `stream` (a packet whose cells leave before its end is known) and
//!   `sar_input`, `reassemble` of AAL3/4; `repair_send` and `repair_receive`; `segment5` and
//!   `reassemble5` of AAL5.
//! * [`pdu`] - formats and their checks: `cell`, `hec` (the header's CRC-8), `sar` and `crc10`, `cpcs`,
//!   `control`, `aal5` and `crc32`.
//! * `sys/` - CRC-10 by an instruction that not every processor has; the crate's only unsafe code.
//!
//! Formats are those of ITU-T I.361, I.432, I.363.3 and I.363.5, and of a study of 1994 that moved one bit
//! ([`pdu::sar::SarFormat::Study`]). What they leave open is decided in `docs/decisions/0027-cells.md`,
//! cited as "0027".

pub mod config;
pub mod counters;
pub mod endpoint;
mod outgoing;
mod partial_table;
pub mod pdu;
pub mod procedure;
mod repaired;
mod spare;
mod sys;

pub use config::{Aal34Config, Adaptation, CellsConfig, ConfigFault, Repair};
pub use counters::CellCounters;
pub use endpoint::Cells;
