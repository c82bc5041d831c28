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
//! `pin=S/R` and `priority=S/R` say where its sender and its receiver run.
//!
//! Besides the transport's own options ([`Transport::options`]), a component may override options
//! of the race that apply to it.

mod placement;

pub use placement::Sides;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use towpath::{Class, OptionHelp, Options, Reach, Sharing, Transport};

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

/// The option of the program that runs a contestant's workers.
const PROGRAM: &str = "program";

/// Options of a contestant's workers, with a form of their values. Every transport has them.
const OF_WORKERS: [(&str, &str); 3] = [
    (PROGRAM, "PATH"),
    (placement::PIN, "SENDER/RECEIVER"),
    (placement::PRIORITY, "SENDER/RECEIVER"),
];

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
    let differs = |(name, _): &&(&str, &str)| {
        let values = components.iter().map(|one| one.options.get(*name));
        let values: Vec<_> = values.collect();
        values.windows(2).any(|two| two[0] != two[1])
    };
    match OF_WORKERS.iter().find(differs) {
        None => Ok(components),
        Some((name, values)) => Err(format!(
            "'{text}': the same two processes run all that share a contestant; give each part the \
             same {name}={values}"
        )),
    }
}

/// CPUs of sender and receiver of the contestant of this label; None where it does not say.
pub fn pin(label: &str) -> Option<Sides<u32>> {
    let components = components(label);
    let text = components.first()?.options.get(placement::PIN)?;
    placement::pin(text).ok()
}

/// Nice values of sender and receiver of the contestant of this label; None where it does not say.
pub fn priority(label: &str) -> Option<Sides<i32>> {
    let components = components(label);
    let text = components.first()?.options.get(placement::PRIORITY)?;
    placement::priority(text).ok()
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
pub fn components(label: &str) -> Vec<Component> {
    parse(label).unwrap_or_default()
}

/// The label of a contestant: its components with sorted keys.
pub fn label(components: &[Component]) -> String {
    let labels: Vec<String> = components.iter().map(Component::to_string).collect();
    labels.join("+")
}

/// All options a component of `transport` may have: its own, those it may override, and those of
/// modules on it.
pub fn options_of(transport: &dyn Transport) -> Vec<OptionHelp> {
    let (modules, mut all): (Vec<OptionHelp>, Vec<OptionHelp>) = transport
        .options()
        .iter()
        .partition(|option| towpath::push::is_option(option.name));
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
    all.extend(modules);
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

    /// Its text for the worker: without the worker's own options.
    pub fn for_worker(&self) -> Component {
        let mut own = self.clone();
        own.options.retain(|key, _| !is_of_workers(key));
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

    /// Whether an empty message arrives as one, with these options.
    pub fn carries_empty(&self) -> bool {
        self.transport.carries_empty(&self.transport_options())
    }

    /// Whether it sends by an engine in the process and waits for nothing that comes back, with these options.
    pub fn sends_unanswered(&self) -> bool {
        self.transport.sends_unanswered(&self.transport_options())
    }

    /// The same with the option by which one circuit reaches several listeners; None where each has a circuit of its own.
    pub fn to_many(&self, sharing: Sharing) -> Option<Component> {
        let own = self.transport_options();
        let (name, value) = self.transport.option_to_many(&own, sharing)?;
        let mut many = self.clone();
        many.options.insert(name.to_owned(), value.to_owned());
        Some(many)
    }

    /// Whether it has that option.
    pub(crate) fn is_to_many(&self, sharing: Sharing) -> bool {
        let many = self.to_many(sharing);
        many.is_some_and(|many| many.options == self.options)
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
                key if is_of_workers(key) => {}
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
        if is_of_workers(key) {
            return self.set_of_workers(key, value);
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

    fn set_of_workers(&mut self, key: &str, value: &str) -> Result<(), String> {
        let name = self.transport.name();
        if value.is_empty() {
            let form = OF_WORKERS.iter().find(|(known, _)| *known == key);
            let form = form.map_or("", |(_, form)| form);
            return Err(format!(
                "option '{key}' of {name} needs a value: {key}={form}"
            ));
        }
        let of_name = |why: String| format!("{name}: {why}");
        match key {
            placement::PIN => drop(placement::pin(value).map_err(of_name)?),
            placement::PRIORITY => drop(placement::priority(value).map_err(of_name)?),
            _ => {}
        }
        self.insert(key, value)
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

fn is_of_workers(key: &str) -> bool {
    OF_WORKERS.iter().any(|(name, _)| *name == key)
}

/// `congestion=NAME, nodelay=on|off`. Options of single modules belong to a push, and are left out.
fn option_list(transport: &dyn Transport) -> String {
    let all = options_of(transport);
    let texts: Vec<String> = all
        .iter()
        .filter(|option| !towpath::push::is_setting(option.name))
        .map(|option| format!("{}={}", option.name, option.values))
        .collect();
    if texts.is_empty() {
        return "no options".into();
    }
    texts.join(", ")
}

#[cfg(test)]
mod tests;
