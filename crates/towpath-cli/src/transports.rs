//! `towpath transports`, availability, and the terminal's width and colours.

use crate::contestants::{components_of, own_buffers};
use crate::print;
use crate::{CliError, EXIT_OK};
use comfy_table::{ContentArrangement, Table, presets};
use loadgen::contestant::options_of;
use measure::RaceSpec;
use results::TestSpec;
use serde_json::json;
use std::io::IsTerminal;
use towpath::{Class, OptionHelp, Options, Reach, Transport, Unavailable};

/// Lists the transports.
///
/// # Errors
///
/// When standard output cannot be written.
pub fn run(as_json: bool) -> Result<u8, CliError> {
    let options = Options {
        congestion: crate::race::default_congestion(),
        ..Options::default()
    };
    if as_json {
        let all: Vec<_> = towpath::all()
            .iter()
            .map(|transport| describe(*transport, &options))
            .collect();
        print::json(&all)?;
        return Ok(EXIT_OK);
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width() as u16);
    table.set_header(["transport", "here", "description", "class"]);
    for transport in towpath::all() {
        let missing = transport.available(&options).err();
        let here = if missing.is_none() { "yes" } else { "no" };
        let what = match missing {
            None => transport.summary().to_owned(),
            Some(Unavailable { reason, remedy }) => {
                format!("{}\nnot here: {reason}; {remedy}", transport.summary())
            }
        };
        table.add_row([transport.name(), here, &what, &class_text(*transport)]);
    }
    print::line(table)?;
    print::line("\nOptions of a contestant, as in tcp,congestion=reno,nodelay=on:")?;
    print::line(options_table())?;
    Ok(EXIT_OK)
}

/// Options of contestants, each with the transports that have it.
fn options_table() -> Table {
    let mut rows: Vec<(OptionHelp, Vec<&str>)> = Vec::new();
    for transport in towpath::all() {
        for option in options_of(*transport) {
            match rows.iter_mut().find(|(known, _)| *known == option) {
                Some((_, names)) => names.push(transport.name()),
                None => rows.push((option, vec![transport.name()])),
            }
        }
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width() as u16);
    table.set_header(["option", "meaning", "of"]);
    for (option, names) in rows {
        table.add_row([
            format!("{}={}", option.name, option.values),
            option.meaning.to_owned(),
            names.join(", "),
        ]);
    }
    table
}

/// The properties of a transport as text.
fn class_text(transport: &dyn Transport) -> String {
    let many = if transport.is_one_to_many() {
        "one to many, "
    } else {
        ""
    };
    format!("{many}{}", class_line(&transport.class()))
}

/// A class as text.
pub fn class_line(class: &Class) -> String {
    let word = |yes: bool, one: &'static str, other: &'static str| if yes { one } else { other };
    let mut words = vec![
        word(class.stream, "byte stream", "messages").to_owned(),
        word(class.reliable, "reliable", "may lose").to_owned(),
        word(class.ordered, "ordered", "unordered").to_owned(),
        word(class.encrypted, "encrypted", "not encrypted").to_owned(),
        word(class.kernel, "kernel", "user process").to_owned(),
        match class.reach {
            Reach::Process => "related processes",
            Reach::Host => "one host",
            Reach::Network => "network",
        }
        .to_owned(),
        format!("checksum: {}", class.checksum),
    ];
    if !class.congestion.is_empty() {
        words.push(format!("congestion control: {}", class.congestion));
    }
    words.push(format!("offload: {}", class.offload));
    words.join(", ")
}

fn describe(transport: &dyn Transport, options: &Options) -> serde_json::Value {
    let class = transport.class();
    let missing = transport.available(options).err();
    let options: Vec<_> = options_of(transport)
        .iter()
        .map(|option| {
            json!({
                "name": option.name, "values": option.values, "meaning": option.meaning,
            })
        })
        .collect();
    json!({
        "name": transport.name(),
        "summary": transport.summary(),
        "available": missing.is_none(),
        "reason": missing.as_ref().map(|missing| &missing.reason),
        "remedy": missing.as_ref().map(|missing| &missing.remedy),
        "options": options,
        "class": {
            "stream": class.stream, "reliable": class.reliable, "ordered": class.ordered,
            "encrypted": class.encrypted, "kernel": class.kernel,
            "one_to_many": transport.is_one_to_many(),
            "connectionless": class.connectionless, "connects": class.connects,
            "flow_control": class.flow_control, "reach": format!("{:?}", class.reach).to_lowercase(),
            "checksum": class.checksum, "congestion": class.congestion, "offload": class.offload,
        },
    })
}

/// The available ones of `wanted`, and the names of the others with reason and remedy.
pub fn split_available(wanted: &[&str], options: &Options) -> crate::contestants::Lineup {
    let mut here = Vec::new();
    let mut missing = Vec::new();
    for name in wanted {
        match towpath::find(name).map(|transport| transport.available(options)) {
            Ok(Ok(())) => here.push((*name).to_owned()),
            Ok(Err(why)) => {
                missing.push((
                    (*name).to_owned(),
                    format!("{}; {}", why.reason, why.remedy),
                ));
            }
            Err(error) => missing.push(((*name).to_owned(), error.to_string())),
        }
    }
    (here, missing)
}

/// Whether standard output is a terminal and NO_COLOR is unset.
pub fn wants_colour() -> bool {
    std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Columns of the terminal, 100 where there is none.
pub fn width() -> usize {
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok());
    columns
        .or_else(|| {
            rustix::termios::tcgetwinsize(std::io::stdout())
                .ok()
                .map(|size| size.ws_col as usize)
        })
        .filter(|&columns: &usize| columns >= 40)
        .unwrap_or(100)
}

/// The description of a race for doctor.
pub fn doctor_test(spec: &RaceSpec) -> TestSpec {
    let components = components_of(&spec.contestants);
    let own = components.iter().filter_map(own_buffers);
    let swept = spec.buffers.iter().copied();
    TestSpec {
        workloads: spec.workloads.clone(),
        transports: components
            .iter()
            .map(|component| component.transport().name().to_owned())
            .collect(),
        pinned: spec.pin.0.is_some(),
        busy_poll: spec.busy_poll,
        circuits: spec.circuits_max(),
        buffers: own.map(|len| len as u64).chain(swept).max(),
        congestion: spec.circuit_options.congestion.clone(),
    }
}
