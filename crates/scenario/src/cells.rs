//! ATM in scenarios: cells of a station, its adapter, and the medium that needs both.

use crate::engines::SpecError;
use crate::file::{FaultSpec, MediumSpec, Scenario, StationSpec};
use crate::units::SimTime;
use engine::Layer;
use engine_aal34::pdu::cpcs::CpcsMode;
use engine_aal34::pdu::sar::SarFormat;
use engine_aal34::{Aal34Config, Adaptation, Cells, CellsConfig, Repair};
use link::LinkConfig;
use serde::Deserialize;
use sim::adapter::STUDY;
use sim::{AdapterConfig, CellAccess, Interrupts, LastCell, MediumConfig, PacketCost};
use std::time::Duration;

/// The rate of an STM-1 line, all of it cells: bits a second.
const STM1_BPS: u64 = 155_520_000;

/// Cells between a station's packets and its frames.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CellsSpec {
    /// The adaptation layer.
    pub aal: AalWord,
    /// AAL3/4: the format of SAR headers.
    #[serde(default)]
    pub sar: SarWord,
    /// AAL3/4: what the first cell announces.
    #[serde(default)]
    pub cpcs: CpcsWord,
    /// AAL3/4: what happens when a cell is missing.
    #[serde(default)]
    pub repair: RepairWord,
    /// AAL3/4: whether one wrong bit of a cell's payload is corrected.
    #[serde(default)]
    pub correct: bool,
    /// AAL3/4: identifiers in use; all if not given.
    pub mids: Option<u16>,
    /// How long the cells of a packet may take to arrive; 100 ms if not given.
    pub mri: Option<SimTime>,
    /// Cells of a frame; 27 if not given, and 1 on medium `atm`.
    pub frame: Option<usize>,
    /// Cells of low priority (CLP), which a congested switch discards first.
    #[serde(default)]
    pub low_priority: bool,
}

impl CellsSpec {
    /// What must be the same at both ends: all but the priority of what is sent.
    pub(crate) fn of_both_ends(&self) -> CellsSpec {
        CellsSpec {
            low_priority: false,
            ..self.clone()
        }
    }
}

/// An adaptation layer.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AalWord {
    /// AAL3/4.
    Aal34,
    /// AAL5.
    Aal5,
}

/// The format of SAR headers.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum SarWord {
    /// ITU-T I.363.3.
    #[default]
    Standard,
    /// The study of 1994.
    Study,
}

/// What the first cell announces.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum CpcsWord {
    /// The packet's length.
    #[default]
    Message,
    /// The most it can have.
    Streaming,
}

/// What happens when a cell is missing.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum RepairWord {
    /// Its packet is discarded.
    #[default]
    Discard,
    /// It is asked for.
    Cells,
}

/// A station's adapter; what is not given is as in the study of 1994.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct AdapterSpec {
    /// How cells cross the bus.
    pub access: AccessWord,
    /// A word on the bus; of `words` and `burst`.
    pub word: Option<SimTime>,
    /// What a word of a packet takes from memory besides; of `words`.
    pub memory: SimTime,
    /// A packet that is sent, besides its cells.
    pub packet: SimTime,
    /// Cells of a short packet at most; none is short if not given.
    pub short_cells: u64,
    /// A short packet that is sent, besides its cells.
    pub short_packet: SimTime,
    /// A flush of the write buffer; of `words`.
    pub flush: SimTime,
    /// The start of a transfer; of `burst` and `scatter-gather`.
    pub setup: SimTime,
    /// Cells of the transmit queue.
    pub transmit: Option<u64>,
    /// Cells of the receive queue.
    pub receive: Option<u64>,
    /// An interrupt when so many cells wait.
    pub interrupt_count: Option<u64>,
    /// An interrupt so long after the receive queue became non-empty.
    pub interrupt_timer: Option<SimTime>,
    /// An interrupt at the last cell of a packet.
    pub interrupt_end: bool,
    /// The longest stall that is no bus error.
    pub stall_max: Option<SimTime>,
}

/// How cells cross the bus.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum AccessWord {
    /// The processor moves each word.
    #[default]
    Words,
    /// One transfer a cell.
    Burst,
    /// One transfer a packet.
    ScatterGather,
}

/// The layer of a station, whose random choices follow from `seed`. Errors: what does not fit together.
pub(crate) fn layer(spec: &CellsSpec, is_atm: bool, seed: u64) -> Result<Box<dyn Layer>, String> {
    let usual = CellsConfig::default();
    let frame_cells = spec
        .frame
        .unwrap_or(if is_atm { 1 } else { usual.frame_cells });
    if is_atm && frame_cells != 1 {
        let refusal = format!("{frame_cells} cells a frame; medium atm carries single cells: 1");
        return Err(refusal);
    }
    let mut config = CellsConfig {
        adaptation: adaptation(spec)?,
        frame_cells,
        low_priority: spec.low_priority,
        mri_timeout: spec.mri.map_or(usual.mri_timeout, |time| {
            Duration::from_nanos(time.0 / 1000)
        }),
        seed,
        ..usual
    };
    config.packet_max = config.packet_limit();
    let cells = Cells::new(config).map_err(|fault| fault.to_string())?;
    Ok(Box::new(cells))
}

fn adaptation(spec: &CellsSpec) -> Result<Adaptation, String> {
    if spec.aal == AalWord::Aal5 {
        let plain = CellsSpec {
            mri: spec.mri,
            frame: spec.frame,
            low_priority: spec.low_priority,
            ..AAL5
        };
        return match *spec == plain {
            true => Ok(Adaptation::Aal5),
            false => Err("aal5 has no sar, cpcs, repair, correct or mids; leave them out".into()),
        };
    }
    let sar = match spec.sar {
        SarWord::Standard => SarFormat::Standard,
        SarWord::Study => SarFormat::Study,
    };
    Ok(Adaptation::Aal34(Aal34Config {
        sar,
        mode: match spec.cpcs {
            CpcsWord::Message => CpcsMode::Message,
            CpcsWord::Streaming => CpcsMode::Streaming,
        },
        repair: match spec.repair {
            RepairWord::Discard => Repair::Discard,
            RepairWord::Cells => Repair::Cells,
        },
        correct_bits: spec.correct,
        mids: spec.mids.unwrap_or(sar.mids()),
        interleave: 1,
    }))
}

const AAL5: CellsSpec = CellsSpec {
    aal: AalWord::Aal5,
    sar: SarWord::Standard,
    cpcs: CpcsWord::Message,
    repair: RepairWord::Discard,
    correct: false,
    mids: None,
    mri: None,
    frame: None,
    low_priority: false,
};

/// The medium `atm`: `link` without a rate has that of an STM-1 line.
pub(crate) fn medium(spec: &MediumSpec, link: LinkConfig) -> MediumConfig {
    MediumConfig::Atm {
        link: LinkConfig {
            rate_bps: link.rate_bps.or(Some(STM1_BPS)),
            ..link
        },
        low_priority_max: spec.low_priority_queue.map(|bytes| bytes.0),
    }
}

/// Whether the scenario's stations are on lines of cells.
pub(crate) fn is_atm(scenario: &Scenario) -> bool {
    scenario.medium.kind.get_ref() == "atm"
}

/// Checks that stations on lines of cells have cells, and that only they have an adapter.
/// Errors: the first that has not, or has one elsewhere.
pub(crate) fn check_stations(scenario: &Scenario) -> Result<(), SpecError> {
    let is_atm = is_atm(scenario);
    for spec in &scenario.station {
        let refusal = match (is_atm, &spec.cells, &spec.chips.adapter) {
            (true, None, _) => {
                "medium atm carries cells; give the station cells = { aal = \"aal34\" }"
            }
            (false, _, Some(_)) => "chips.adapter is for medium atm; leave it out",
            _ if spec.cells.is_some() && spec.layer.is_some() => {
                "a station has one layer; leave layer or cells out"
            }
            _ => continue,
        };
        return Err((spec.engine.protocol.span(), refusal.to_owned()));
    }
    if scenario.medium.low_priority_queue.is_some() && !is_atm {
        let refusal = "medium.low_priority_queue is for atm; leave it out";
        return Err((scenario.medium.kind.span(), refusal.to_owned()));
    }
    if is_atm && scenario.faults.is_some_and(has_reordering) {
        let refusal = "lines of cells keep order; leave faults.reorder out";
        return Err((scenario.medium.kind.span(), refusal.to_owned()));
    }
    Ok(())
}

fn has_reordering(faults: FaultSpec) -> bool {
    faults.reorder.0 > 0
}

/// The adapter of a station. Errors: interrupts that leave cells in the queue for ever.
pub(crate) fn adapter(spec: &StationSpec) -> Result<Option<AdapterConfig>, SpecError> {
    let Some(own) = &spec.chips.adapter else {
        return Ok(None);
    };
    let interrupts = Interrupts {
        count: own.interrupt_count,
        timer_ps: own.interrupt_timer.map(|time| time.0),
        end_of_message: own.interrupt_end,
    };
    if interrupts.timer_ps.is_none() && interrupts != Interrupts::default() {
        let refusal = "cells that no interrupt announces would wait for ever; add interrupt_timer";
        return Err((spec.engine.protocol.span(), refusal.to_owned()));
    }
    let word_ps = own.word.map_or(WORD_PS, |time| time.0);
    let (flush_ps, setup_ps) = (own.flush.0, own.setup.0);
    Ok(Some(AdapterConfig {
        transmit_cells: own.transmit.unwrap_or(STUDY.transmit_cells).max(1),
        receive_cells: own.receive.unwrap_or(STUDY.receive_cells).max(1),
        access: match own.access {
            AccessWord::Words => CellAccess::Words {
                word_ps,
                memory_ps: own.memory.0,
                flush_ps,
            },
            AccessWord::Burst => CellAccess::Burst { setup_ps, word_ps },
            AccessWord::ScatterGather => CellAccess::ScatterGather { setup_ps },
        },
        interrupts,
        last_cell: match spec.cells.as_ref().map(|cells| cells.get_ref().aal) {
            Some(AalWord::Aal5) => LastCell::PayloadType,
            _ => LastCell::SegmentType,
        },
        packet: PacketCost {
            usual_ps: own.packet.0,
            short_cells: own.short_cells,
            short_ps: own.short_packet.0,
        },
        stall_max_ps: own.stall_max.map_or(STUDY.stall_max_ps, |time| time.0),
    }))
}

/// A cycle of the study's bus of 25 MHz, ps.
const WORD_PS: u64 = 40_000;
