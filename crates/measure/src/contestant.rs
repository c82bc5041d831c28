//! Contestants: a transport with its options, or several that run together.
//!
//! A contestant is written `COMPONENT[+COMPONENT...]`, a component `NAME[,KEY=VALUE...]`: `tcp`,
//! `tcp,congestion=bbr`, `tcp+udp`. The same text with sorted keys is its label in plans, jobs,
//! results and reports, so that one transport may take part several times.
//!
//! The same contestant may race against itself: the second is written `tcp#2`, the third `tcp#3`.
//! The number distinguishes labels and nothing else.
//!
//! `program=PATH` lets another program run the workers of a contestant, so that two builds can race;
//! see [`crate::worker_program`].
//!
//! Besides the transport's own options ([`Transport::options`]), a component may override options
//! of the race that apply to it.

use crate::quantity;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use towpath::{Class, OptionHelp, Options, Reach, Transport};

/// Largest socket buffer a component may request; the kernel counts them in 31 bits.
const BUFFERS_MAX: u64 = 1 << 30;

const CONGESTION: OptionHelp = OptionHelp {
    name: "congestion",
    values: "NAME",
    meaning: "congestion control, overrides --congestion",
};

const NODELAY: OptionHelp = OptionHelp {
    name: "nodelay",
    values: "on|off",
    meaning: "on disables Nagle's algorithm, overrides --nodelay",
};

const BUFFERS: OptionHelp = OptionHelp {
    name: "buffers",
    values: "BYTES",
    meaning: "socket buffers in both directions, overrides --buffers",
};

/// The option of the program that runs a contestant's workers. Every transport has it.
const PROGRAM: &str = "program";

/// A transport with its options.
#[derive(Clone)]
pub struct Component {
    transport: &'static dyn Transport,
    options: BTreeMap<String, String>,
}

/// Parses the components of a contestant.
///
/// # Errors
///
/// A sentence that names what is wrong, and the transport's options.
pub fn parse(text: &str) -> Result<Vec<Component>, String> {
    let text = without_number(text);
    let components: Vec<Component> = text
        .split('+')
        .map(Component::parse)
        .collect::<Result<_, _>>()?;
    match components
        .windows(2)
        .all(|two| two[0].program() == two[1].program())
    {
        true => Ok(components),
        false => Err(format!(
            "'{text}': one program runs all that share a contestant; give each part the same \
             program=PATH"
        )),
    }
}

/// The program that runs the workers of the contestant of this label; None for this program.
pub fn program(label: &str) -> Option<PathBuf> {
    components(label).first().and_then(Component::program)
}

/// A label without the number that distinguishes it from an equal one.
pub fn without_number(label: &str) -> &str {
    match label.rsplit_once('#') {
        Some((name, number)) if number.parse::<u32>().is_ok() => name,
        _ => label,
    }
}

/// The labels with a number behind each that stood before: `tcp`, `tcp#2`.
pub fn numbered(labels: &[String]) -> Vec<String> {
    let number = |(place, label): (usize, &String)| {
        let before = labels[..place].iter().filter(|other| *other == label);
        match before.count() {
            0 => label.clone(),
            count => format!("{label}#{}", count + 1),
        }
    };
    labels.iter().enumerate().map(number).collect()
}

/// The components of a valid label; none for any other text.
pub(crate) fn components(label: &str) -> Vec<Component> {
    parse(label).unwrap_or_default()
}

/// The label of a contestant: its components with sorted keys.
pub fn label(components: &[Component]) -> String {
    let labels: Vec<String> = components.iter().map(Component::to_string).collect();
    labels.join("+")
}

/// All options a component of `transport` may have: its own, then those it may override.
pub fn options_of(transport: &dyn Transport) -> Vec<OptionHelp> {
    let mut all = transport.options().to_vec();
    let class = transport.class();
    let tcp = class.kernel && class.stream && class.reach == Reach::Network;
    // The null transport moves nothing and so has no buffers.
    let buffered = transport.name() != "null";
    let shared = [
        (CONGESTION, !class.congestion.is_empty()),
        (NODELAY, tcp),
        (BUFFERS, buffered),
    ];
    for (option, concerns) in shared {
        if concerns && all.iter().all(|own| own.name != option.name) {
            all.push(option);
        }
    }
    all
}

impl Component {
    /// From `NAME[,KEY=VALUE...]`; errors as in [`parse`].
    pub fn parse(text: &str) -> Result<Component, String> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        let transport = towpath::find(name).map_err(|error| error.to_string())?;
        let mut component = Component {
            transport,
            options: BTreeMap::new(),
        };
        for part in parts {
            component.add_option(part)?;
        }
        transport.check_options(&component.transport_options())?;
        Ok(component)
    }

    /// The transport.
    pub fn transport(&self) -> &'static dyn Transport {
        self.transport
    }

    /// The program that runs its workers; None for this program.
    pub fn program(&self) -> Option<PathBuf> {
        self.options.get(PROGRAM).map(PathBuf::from)
    }

    /// Its text for the worker: without the program.
    pub fn without_program(&self) -> Component {
        let mut own = self.clone();
        own.options.remove(PROGRAM);
        own
    }

    /// The service class of the transport with these options.
    pub fn class(&self) -> Class {
        self.transport.class_with(&self.transport_options())
    }

    /// Whether only the connecting side sends, with these options.
    pub fn is_one_way(&self) -> bool {
        self.transport.is_one_way(&self.transport_options())
    }

    /// Applies this component's options to `options`.
    pub fn apply(&self, options: &mut Options) {
        let own = self.transport_options();
        for (key, value) in self
            .options
            .iter()
            .filter(|(key, _)| !own.contains_key(*key))
        {
            match key.as_str() {
                "congestion" => options.congestion.clone_from(value),
                "nodelay" => options.nodelay = Some(value == "on"),
                PROGRAM => {}
                // Invalid sizes were refused when the component was parsed.
                _ => options.buffers = parse_buffers(value).ok(),
            }
        }
        options.transport_specific = own;
    }

    /// The options that only its transport knows.
    fn transport_options(&self) -> BTreeMap<String, String> {
        let own = self.transport.options();
        let is_own = |key: &String| own.iter().any(|option| option.name == key.as_str());
        let mut options = self.options.clone();
        options.retain(|key, _| is_own(key));
        options
    }

    fn add_option(&mut self, part: &str) -> Result<(), String> {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let known = options_of(self.transport);
        let name = self.transport.name();
        if key == PROGRAM {
            return self.set_program(value);
        }
        let Some(option) = known.iter().find(|option| option.name == key) else {
            if key == "cells" {
                return Err(towpath::cells::no_cells_below(name));
            }
            let list = option_list(self.transport);
            return Err(format!("{name} has no option '{key}'; {name} has {list}"));
        };
        if value.is_empty() {
            let values = option.values;
            return Err(format!(
                "option '{key}' of {name} needs a value: {key}={values}"
            ));
        }
        match option {
            option if *option == NODELAY && !matches!(value, "on" | "off") => {
                return Err(format!("nodelay of {name} is '{value}', not on or off"));
            }
            option if *option == BUFFERS => {
                parse_buffers(value).map_err(|why| format!("{why}; {name} has buffers=BYTES"))?;
            }
            _ => {}
        }
        self.insert(key, value)
    }

    fn set_program(&mut self, path: &str) -> Result<(), String> {
        if path.is_empty() {
            let name = self.transport.name();
            return Err(format!(
                "option 'program' of {name} needs a value: program=PATH"
            ));
        }
        self.insert(PROGRAM, path)
    }

    fn insert(&mut self, key: &str, value: &str) -> Result<(), String> {
        let name = self.transport.name();
        match self.options.insert(key.to_owned(), value.to_owned()) {
            None => Ok(()),
            Some(_) => Err(format!("{name} is given option '{key}' twice")),
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.transport.name())?;
        let mut options = self.options.iter();
        options.try_for_each(|(key, value)| write!(f, ",{key}={value}"))
    }
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Component({self})")
    }
}

fn parse_buffers(text: &str) -> Result<usize, String> {
    let bytes = quantity::bytes(text)?;
    if bytes == 0 || bytes > BUFFERS_MAX {
        return Err(format!(
            "buffers of '{text}' are out of range, from 1 B to 1 GiB"
        ));
    }
    Ok(bytes as usize)
}

/// `congestion=NAME, nodelay=on|off`.
fn option_list(transport: &dyn Transport) -> String {
    let all = options_of(transport);
    let texts: Vec<String> = all
        .iter()
        .map(|option| format!("{}={}", option.name, option.values))
        .collect();
    if texts.is_empty() {
        return "no options".into();
    }
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_sorts_option_keys() {
        for (text, label_wanted) in [
            ("tcp", "tcp"),
            ("tcp+udp", "tcp+udp"),
            (
                "tcp,nodelay=on,congestion=reno+udp,buffers=64k",
                "tcp,congestion=reno,nodelay=on+udp,buffers=64k",
            ),
        ] {
            let components = parse(text).expect("a contestant");
            assert_eq!(label(&components), label_wanted);
            let again = parse(&label(&components)).expect("its own label");
            assert_eq!(label(&again), label_wanted);
        }
    }

    #[test]
    fn equal_contestants_are_numbered_and_parse_alike() {
        let labels = ["tcp", "udp", "tcp", "tcp"].map(str::to_owned);
        assert_eq!(numbered(&labels), ["tcp", "udp", "tcp#2", "tcp#3"]);
        for text in ["tcp#2", "tcp,nodelay=on+udp#12"] {
            let components = parse(text).expect("a contestant");
            assert_eq!(label(&components), without_number(text));
        }
        assert!(parse("tcp#two").is_err());
    }

    #[test]
    fn component_that_sends_datagrams_is_one_way_and_may_lose() {
        for (text, is_one_way) in [("vmtp,repeat=2", true), ("vmtp", false), ("tcp", false)] {
            let component = Component::parse(text).expect("a component");
            assert_eq!(component.is_one_way(), is_one_way, "{text}");
            assert_eq!(component.class().reliable, !is_one_way, "{text}");
        }
    }

    #[test]
    fn component_options_override_race_options() {
        let component =
            Component::parse("tcp,congestion=reno,nodelay=off,buffers=64k").expect("a component");
        let mut options = Options {
            nodelay: Some(true),
            ..Options::default()
        };
        component.apply(&mut options);
        assert_eq!(options.congestion, "reno");
        assert_eq!(options.nodelay, Some(false));
        assert_eq!(options.buffers, Some(65536));
        assert!(options.transport_specific.is_empty());
        let mut untouched = Options::default();
        Component::parse("tcp")
            .expect("a component")
            .apply(&mut untouched);
        assert_eq!(untouched, Options::default());
    }

    #[test]
    fn program_belongs_to_the_label_and_not_to_the_job() {
        let components = parse("tcp,program=./old/towpath,nodelay=on").expect("a contestant");
        let named = label(&components);
        assert_eq!(named, "tcp,nodelay=on,program=./old/towpath");
        assert_eq!(program(&named), Some(PathBuf::from("./old/towpath")));
        assert_eq!(program("tcp#2"), None);
        assert_eq!(
            components[0].without_program().to_string(),
            "tcp,nodelay=on"
        );
        let mut options = Options::default();
        components[0].apply(&mut options);
        assert_eq!(options.buffers, None);
        assert!(options.transport_specific.is_empty());
    }

    #[test]
    fn program_of_one_part_alone_is_refused() {
        let why = parse("tcp,program=./old+udp").expect_err("two programs");
        assert!(
            why.contains("give each part the same program=PATH"),
            "{why}"
        );
        let why = parse("tcp,program=").expect_err("no path");
        assert!(why.contains("program=PATH"), "{why}");
        parse("tcp,program=./old+udp,program=./old").expect("one program");
    }

    fn has_option(transport: &dyn Transport, name: &str) -> bool {
        transport.options().iter().any(|option| option.name == name)
    }

    #[test]
    fn interleave_is_of_cells_as_a_number_and_of_sctp_as_a_word() {
        for text in [
            "sctp,interleave=on",
            "sctp,streams=4,interleave=on,cells=aal34",
            "sctp,cells=aal34,interleave=4",
        ] {
            Component::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        }
        let refused = Component::parse("sctp,interleave=4").map(|_| ());
        let why = refused.expect_err("there are no cells");
        assert!(why.to_string().contains("add cells=aal34"), "{why}");
    }

    #[test]
    fn every_transport_option_parses_and_applies() {
        for transport in towpath::all() {
            for option in transport.options() {
                let first = option.values.split('|').next().expect("a value");
                let value = match first {
                    "BYTES" if option.name == "packet" => "1200",
                    "BYTES" => "32k",
                    "TIME" => "200ms",
                    "RATE" => "10mbit",
                    "COUNT" => "7",
                    "PATH/ASSOC/INIT" => "5/10/8",
                    "HIGH/LOW" => "4096/1024",
                    "ADDR:PORT" => "10.0.0.1:9000",
                    other => other,
                };
                // `burst` requires `rate`, `gateway` XTP 3.6, and `key` authentication.
                let more = match option.name {
                    "burst" => ",rate=1gbit",
                    "gateway" => ",dialect=3.6",
                    "key" if has_option(*transport, "auth") => ",auth=on",
                    "correct" | "cpcs" | "interleave" | "mids" | "repair" | "sar" | "frame"
                    | "mri"
                        if has_option(*transport, "cells") =>
                    {
                        ",cells=aal34"
                    }
                    _ => "",
                };
                let text = format!("{},{}={value}{more}", transport.name(), option.name);
                let component =
                    Component::parse(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
                let mut options = Options::default();
                component.apply(&mut options);
                assert_eq!(
                    options
                        .transport_specific
                        .get(option.name)
                        .map(String::as_str),
                    Some(value)
                );
            }
        }
    }

    #[test]
    fn component_parse_error_lists_options_only_where_the_name_is_wrong() {
        for (text, words, has_list) in [
            ("tcp,", "no option ''", true),
            ("tcp,fast=on", "tcp has no option 'fast'", true),
            ("udp+tcp,x=1", "tcp has no option 'x'", true),
            (
                "tcp,congestion",
                "option 'congestion' of tcp needs a value: congestion=NAME",
                false,
            ),
            (
                "tcp,nodelay=",
                "option 'nodelay' of tcp needs a value: nodelay=on|off",
                false,
            ),
            (
                "tcp,nodelay=maybe",
                "nodelay of tcp is 'maybe', not on or off",
                false,
            ),
            ("tcp,nodelay=on,nodelay=off", "'nodelay' twice", false),
            ("tcp,buffers=big", "'big' is no size", false),
            ("tcp,buffers=0", "'0' are out of range", false),
            ("tcp,buffers=2000M", "'2000M' are out of range", false),
            ("xtp,queue=1", "queue=1 is not possible", false),
            ("tcp,cells=aal34", "tcp takes no cells", false),
            ("bare,mids=3", "add cells=aal34", false),
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.contains(words), "{why}");
            let list = why.contains("tcp has quickack=off|on, congestion=NAME, nodelay=on|off");
            assert_eq!(list, has_list, "{why}");
            assert!(has_list || why.len() < 120, "{why}");
        }
        let why = parse("udp,congestion=bbr").expect_err("udp has none");
        assert!(
            why.contains("udp has no option 'congestion'; udp has buffers=BYTES"),
            "{why}"
        );
        let why = parse("null,buffers=64k").expect_err("nothing to buffer");
        assert!(why.contains("null has no options"), "{why}");
        let why = parse("tpc,congestion=bbr").expect_err("no such transport");
        assert!(why.contains("unknown transport 'tpc'"), "{why}");
    }
}
