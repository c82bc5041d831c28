//! The options of cells below an engine: `cells=aal34` and what goes with it.

use crate::cell_capture::CapturedCells;
use crate::contract::OptionHelp;
use crate::engine_setup;
use crate::process_capture;
use crate::xtp::option_values::{OFF_ON, parse_choice, parse_count, parse_interval};
use engine::Layer;
use engine_aal34::config::{FRAME_CELLS_MAX, INTERLEAVE_MAX};
use engine_aal34::pdu::cpcs::CpcsMode;
use engine_aal34::pdu::sar::SarFormat;
use engine_aal34::{Aal34Config, Adaptation, Cells, CellsConfig, Repair};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

const fn option(name: &'static str, values: &'static str, meaning: &'static str) -> OptionHelp {
    OptionHelp {
        name,
        values,
        meaning,
    }
}

/// The option that puts cells below an engine.
pub(crate) const CELLS: OptionHelp = option(
    "cells",
    "off|aal34|aal5",
    "ATM cells between packets and the wire, with this adaptation layer; the same at both ends",
);

/// Options of both adaptation layers.
pub(crate) const OF_BOTH: [OptionHelp; 2] = [
    option(
        "frame",
        "COUNT",
        "cells of a frame, 1 to 1236; 27 if not given",
    ),
    option(
        "mri",
        "TIME",
        "how long the cells of a packet may take to arrive, from 1ms; 100ms if not given",
    ),
];

/// Options of AAL3/4 alone.
pub(crate) const OF_AAL34: [OptionHelp; 6] = [
    option(
        "correct",
        "off|on",
        "whether one wrong bit of a cell's payload is corrected",
    ),
    option(
        "cpcs",
        "message|streaming",
        "whether the first cell announces the packet's length, or the most it can have",
    ),
    option(
        "interleave",
        "COUNT",
        "packets whose cells alternate, 1 to 16; 1 if not given",
    ),
    option(
        "mids",
        "COUNT",
        "multiplexing identifiers in use; 1024, or 512 with sar=study, if not given",
    ),
    option(
        "repair",
        "discard|cells",
        "whether a packet without all its cells is discarded, or the missing cells are asked for",
    ),
    option(
        "sar",
        "standard|study",
        "sequence numbers of 4 bits and a common part, or of 5 bits without, as in a study of 1994",
    ),
];

const SAR_FORMATS: [(&str, SarFormat); 2] = [
    ("standard", SarFormat::Standard),
    ("study", SarFormat::Study),
];

const REPAIRS: [(&str, Repair); 2] = [("discard", Repair::Discard), ("cells", Repair::Cells)];

const CPCS_MODES: [(&str, CpcsMode); 2] = [
    ("message", CpcsMode::Message),
    ("streaming", CpcsMode::Streaming),
];

/// An adaptation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Aal34,
    Aal5,
}

const KINDS: [(&str, Option<Kind>); 3] = [
    ("off", None),
    ("aal34", Some(Kind::Aal34)),
    ("aal5", Some(Kind::Aal5)),
];

/// The sentence for `cells=` on a transport that has no engine of this project.
pub fn no_cells_below(transport: &str) -> String {
    format!(
        "{transport} takes no cells: it has no engine of this project; use cells= with bare, xtp, sctp \
         or vmtp"
    )
}

/// Takes the options of cells out of `own`; `fixed` is the adaptation layer of a transport that has
/// always the same.
pub(crate) fn take(
    own: &mut BTreeMap<String, String>,
    fixed: Option<Kind>,
) -> Result<Option<CellsConfig>, String> {
    let chosen = match own.remove(CELLS.name) {
        Some(value) => parse_choice(CELLS.name, &value, &KINDS)?,
        None => fixed,
    };
    let mut taken = BTreeMap::new();
    for option in OF_BOTH.iter().chain(&OF_AAL34) {
        // With `on` or `off` it is the option of SCTP that has the same name.
        let is_of_protocol = |value: &String| {
            option.name == "interleave" && OFF_ON.iter().any(|(word, _)| word == value)
        };
        if own.get(option.name).is_some_and(is_of_protocol) {
            continue;
        }
        if let Some(value) = own.remove(option.name) {
            taken.insert(option.name, value);
        }
    }
    let Some(kind) = chosen else {
        return match taken.first_key_value() {
            None => Ok(None),
            Some((name, value)) => Err(format!(
                "{name}={value} is an option of cells, and there are none; add cells=aal34"
            )),
        };
    };
    let config = match kind {
        Kind::Aal34 => aal34(&taken)?,
        Kind::Aal5 => aal5(&taken)?,
    };
    config.check().map_err(|fault| fault.to_string())?;
    Ok(Some(config))
}

fn aal5(taken: &BTreeMap<&str, String>) -> Result<CellsConfig, String> {
    let of_aal34 = |name: &&&str| OF_AAL34.iter().any(|option| option.name == **name);
    if let Some(name) = taken.keys().find(of_aal34) {
        return Err(format!(
            "{name}= is an option of AAL3/4: cells of AAL5 have no header of their own; leave it out, \
             or use cells=aal34"
        ));
    }
    with_both(Adaptation::Aal5, taken)
}

fn aal34(taken: &BTreeMap<&str, String>) -> Result<CellsConfig, String> {
    let usual = Aal34Config::default();
    let given = |name| taken.get(name).map(|value: &String| (name, value.as_str()));
    let sar = match given("sar") {
        Some((name, value)) => parse_choice(name, value, &SAR_FORMATS)?,
        None => usual.sar,
    };
    let config = Aal34Config {
        sar,
        mode: match given("cpcs") {
            Some((name, value)) => parse_choice(name, value, &CPCS_MODES)?,
            None => usual.mode,
        },
        correct_bits: match given("correct") {
            Some((name, value)) => parse_choice(name, value, &OFF_ON)?,
            None => usual.correct_bits,
        },
        mids: match given("mids") {
            Some((name, value)) => parse_count(name, value, 1..=sar.mids())?,
            None => sar.mids(),
        },
        interleave: match given("interleave") {
            Some((name, value)) => parse_count(name, value, 1..=INTERLEAVE_MAX)?,
            None => usual.interleave,
        },
        repair: match given("repair") {
            Some((name, value)) => parse_choice(name, value, &REPAIRS)?,
            None => usual.repair,
        },
    };
    with_both(Adaptation::Aal34(config), taken)
}

fn with_both(
    adaptation: Adaptation,
    taken: &BTreeMap<&str, String>,
) -> Result<CellsConfig, String> {
    let usual = CellsConfig::default();
    let config = CellsConfig {
        adaptation,
        frame_cells: match taken.get("frame") {
            Some(value) => parse_count("frame", value, 1..=FRAME_CELLS_MAX)?,
            None => usual.frame_cells,
        },
        mri_timeout: match taken.get("mri") {
            Some(value) => parse_interval("mri", value, Duration::from_millis(1))?,
            None => usual.mri_timeout,
        },
        ..usual
    };
    let packet_max = config.packet_limit();
    Ok(CellsConfig {
        packet_max,
        ..config
    })
}

/// The layer of an endpoint whose longest packet has `packet_max` octets, and which has at most
/// `in_flight` packets under way.
/// Fails with `InvalidInput` when such packets, or so many, do not fit; a capture that cannot be written.
pub(crate) fn layer(
    config: &CellsConfig,
    packet_max: usize,
    in_flight: usize,
) -> io::Result<Box<dyn Layer + Send>> {
    if let Adaptation::Aal34(aal34) = &config.adaptation {
        let checked = aal34.check_window(in_flight);
        checked.map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
    }
    let config = CellsConfig {
        packet_max,
        seed: engine_setup::random_seed(),
        ..config.clone()
    };
    let is_aal5 = config.adaptation == Adaptation::Aal5;
    let cells = Cells::new(config);
    let cells = cells.map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
    Ok(match process_capture::writer()? {
        None => Box::new(cells),
        Some(writer) => Box::new(CapturedCells::new(Box::new(cells), writer, is_aal5)),
    })
}

/// Adds what a layer counts of its own to the counters of a circuit.
pub(crate) fn add_counts(of_layer: Vec<(&'static str, u64)>, counts: &mut BTreeMap<String, u64>) {
    counts.extend(
        of_layer
            .into_iter()
            .map(|(name, count)| (name.into(), count)),
    );
}

/// The adaptation layer's name.
pub(crate) fn name(config: &CellsConfig) -> &'static str {
    match &config.adaptation {
        Adaptation::Aal34(own) if own.sar == SarFormat::Study => "aal34, sar=study",
        Adaptation::Aal34(_) => "aal34",
        Adaptation::Aal5 => "aal5",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<CellsConfig>, String> {
        let pairs = text.split(',').filter_map(|part| part.split_once('='));
        let mut own = pairs
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        take(&mut own, None)
    }

    #[test]
    fn options_of_cells_make_a_configuration() {
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("cells=off"), Ok(None));
        let config = parse("cells=aal34,sar=study,interleave=4,frame=28,mri=20ms");
        let config = config.expect("right").expect("cells");
        let Adaptation::Aal34(aal34) = config.adaptation else {
            panic!("AAL3/4")
        };
        assert_eq!(
            (aal34.sar, aal34.mids, aal34.interleave),
            (SarFormat::Study, 512, 4)
        );
        assert_eq!((config.frame_cells, config.packet_max), (28, 1408));
        assert_eq!(config.mri_timeout, Duration::from_millis(20));
        let config = parse("cells=aal5").expect("right").expect("cells");
        assert_eq!(
            (config.adaptation, config.packet_max),
            (Adaptation::Aal5, 65_535)
        );
    }

    #[test]
    fn wrong_options_of_cells_are_refused_with_a_remedy() {
        for (text, words) in [
            ("cells=aal2", "aal34"),
            ("sar=study", "add cells=aal34"),
            ("cells=off,mids=4", "add cells=aal34"),
            ("cells=aal5,mids=4", "use cells=aal34"),
            ("cells=aal34,mids=8,interleave=8", "give mids=9"),
            ("cells=aal34,sar=study,mids=513", "mids"),
            ("cells=aal5,repair=cells", "use cells=aal34"),
            ("cells=aal34,repair=cells,mids=2", "MID window"),
            ("cells=aal34,mri=0s", "mri"),
            ("cells=aal34,frame=0", "frame"),
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.contains(words), "{text}: {why}");
        }
    }

    #[test]
    fn options_of_the_engine_are_left() {
        let mut own =
            BTreeMap::from([("packet".into(), "900".into()), ("mids".into(), "3".into())]);
        let config = take(&mut own, Some(Kind::Aal34));
        assert!(config.expect("right").is_some());
        assert_eq!(own.keys().collect::<Vec<_>>(), ["packet"]);
    }
}
