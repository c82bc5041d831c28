//! What a program says of one of its transports, and the transport that a race knows from that.

use super::TEXT_MAX;
use control::validate;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use towpath::{
    CircuitResult, Class, Listener, OptionHelp, Options, Reach, Rendezvous, Transport, Unavailable,
};

/// Options of a transport that are taken from another program.
const OPTIONS_MAX: usize = 64;

/// Characters of a name.
const NAME_MAX: usize = 32;

/// A transport in words, sent as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Description {
    name: String,
    summary: String,
    /// Reason and remedy where its host cannot run it.
    missing: Option<(String, String)>,
    options: Vec<DescribedOption>,
    one_to_many: bool,
    only_answers: bool,
    one_way: bool,
    /// Older programs do not say it.
    #[serde(default)]
    sends_unanswered: bool,
    /// As above; a transport that is no byte stream does, then.
    carries_empty: Option<bool>,
    message_max: Option<u64>,
    #[serde(with = "DescribedClass")]
    class: Class,
}

#[derive(Debug, Serialize, Deserialize)]
struct DescribedOption {
    name: String,
    values: String,
    meaning: String,
}

/// A text for as long as this program runs. A reference would be read from the line itself, which is gone by then.
type Kept = &'static str;

/// [`Class`], field by field.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Class")]
struct DescribedClass {
    reliable: bool,
    ordered: bool,
    #[serde(default)]
    duplicates: bool,
    encrypted: bool,
    stream: bool,
    kernel: bool,
    connectionless: bool,
    connects: bool,
    flow_control: bool,
    half_close: bool,
    calls: bool,
    #[serde(with = "DescribedReach")]
    reach: Reach,
    #[serde(deserialize_with = "read_kept")]
    checksum: Kept,
    #[serde(deserialize_with = "read_kept")]
    congestion: Kept,
    #[serde(deserialize_with = "read_kept")]
    offload: Kept,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Reach", rename_all = "lowercase")]
enum DescribedReach {
    Process,
    Host,
    Network,
}

impl Description {
    /// Of a transport of this program; what depends on its options is said of none.
    pub(super) fn of(transport: &dyn Transport) -> Description {
        let missing = transport.available(&Options::default()).err();
        let option = |option: &OptionHelp| DescribedOption {
            name: option.name.into(),
            values: option.values.into(),
            meaning: option.meaning.into(),
        };
        Description {
            name: transport.name().into(),
            summary: transport.summary().into(),
            missing: missing.map(|why| (why.reason, why.remedy)),
            options: transport.options().iter().map(option).collect(),
            one_to_many: transport.is_one_to_many(),
            only_answers: transport.only_answers(),
            one_way: transport.is_one_way(&BTreeMap::new()),
            sends_unanswered: transport.sends_unanswered(&BTreeMap::new()),
            carries_empty: Some(transport.carries_empty(&BTreeMap::new())),
            message_max: transport.message_max(),
            class: transport.class(),
        }
    }

    /// None when a name has characters to which the text of a contestant gives a meaning, or there are too
    /// many options.
    pub(super) fn into_transport(self, program: &Path) -> Option<ProgramTransport> {
        let names = self.options.iter().map(|one| &one.name);
        let fits = is_name(&self.name) && names.clone().all(|name| is_name(name));
        if !fits || names.len() > OPTIONS_MAX {
            return None;
        }
        let help = |one: &DescribedOption| OptionHelp {
            name: kept(&one.name),
            values: kept(&one.values),
            meaning: kept(&one.meaning),
        };
        Some(ProgramTransport {
            program: program.to_owned(),
            name: kept(&self.name),
            summary: kept(&self.summary),
            options: self.options.iter().map(help).collect(),
            description: self,
        })
    }
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    (1..=NAME_MAX).contains(&text.len()) && text.chars().all(plain)
}

/// A text for as long as this program runs: a race has a handful of them.
fn kept(text: &str) -> &'static str {
    Box::leak(validate::printable(text, TEXT_MAX).into_boxed_str())
}

fn read_kept<'de, D: Deserializer<'de>>(text: D) -> Result<&'static str, D::Error> {
    String::deserialize(text).map(|text| kept(&text))
}

/// A transport of another program: it is planned and reported here, and runs only there.
pub(super) struct ProgramTransport {
    program: PathBuf,
    name: &'static str,
    summary: &'static str,
    options: Vec<OptionHelp>,
    description: Description,
}

impl ProgramTransport {
    fn runs_elsewhere(&self) -> io::Error {
        let program = self.program.display();
        let why = format!(
            "{} runs in {program} only; add program={program}",
            self.name
        );
        io::Error::new(io::ErrorKind::Unsupported, why)
    }
}

impl Transport for ProgramTransport {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn class(&self) -> Class {
        self.description.class
    }

    fn is_one_to_many(&self) -> bool {
        self.description.one_to_many
    }

    fn only_answers(&self) -> bool {
        self.description.only_answers
    }

    fn is_one_way(&self, _own: &BTreeMap<String, String>) -> bool {
        self.description.one_way
    }

    fn sends_unanswered(&self, _own: &BTreeMap<String, String>) -> bool {
        self.description.sends_unanswered
    }

    fn carries_empty(&self, _own: &BTreeMap<String, String>) -> bool {
        let said = self.description.carries_empty;
        said.unwrap_or(!self.description.class.stream)
    }

    fn message_max(&self) -> Option<u64> {
        self.description.message_max
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        match &self.description.missing {
            None => Ok(()),
            Some((reason, remedy)) => Err(Unavailable {
                reason: validate::printable(reason, TEXT_MAX),
                remedy: validate::printable(remedy, TEXT_MAX),
            }),
        }
    }

    fn options(&self) -> &[OptionHelp] {
        &self.options
    }

    fn listen(&self, _options: &Options) -> io::Result<Box<dyn Listener>> {
        Err(self.runs_elsewhere())
    }

    fn connect(&self, _: &Rendezvous, _: usize, _: &Options) -> CircuitResult {
        Err(self.runs_elsewhere())
    }

    towpath::usual_transport! {
        class_with option_to_many check_options connect_all connect_to_many
    }
}

#[cfg(test)]
mod tests {
    use super::super::described;
    use super::*;

    #[test]
    fn race_knows_of_a_transport_what_its_program_says() {
        for transport in towpath::all() {
            let line = described(transport.name()).expect("it is there");
            let parsed: Description = serde_json::from_str(&line).expect("a description");
            let learnt = parsed
                .into_transport(Path::new("./p"))
                .expect("its names fit");
            assert_eq!(learnt.name(), transport.name());
            assert_eq!(learnt.class(), transport.class(), "{line}");
            assert_eq!(learnt.options().len(), transport.options().len());
            assert_eq!(learnt.only_answers(), transport.only_answers());
            assert_eq!(learnt.message_max(), transport.message_max());
            let own = BTreeMap::new();
            assert_eq!(learnt.carries_empty(&own), transport.carries_empty(&own));
            assert_eq!(
                learnt.sends_unanswered(&own),
                transport.sends_unanswered(&own)
            );
            let refused = learnt.listen(&Options::default());
            let why = refused.err().expect("it runs elsewhere").to_string();
            assert!(why.contains("runs in ./p only"), "{why}");
        }
    }

    #[test]
    fn older_program_does_not_say_whether_empty_messages_arrive() {
        for (name, carries) in [("udp", true), ("tcp", false)] {
            let line = described(name).expect("it is there");
            let mut words: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            let fields = words.as_object_mut().expect("an object");
            assert!(fields.remove("carries_empty").is_some());
            let parsed: Description = serde_json::from_value(words).expect("a description");
            let learnt = parsed
                .into_transport(Path::new("./p"))
                .expect("its names fit");
            assert_eq!(learnt.carries_empty(&BTreeMap::new()), carries);
        }
    }

    #[test]
    fn names_that_the_text_of_a_contestant_cannot_hold_are_refused() {
        let of = |name| Description::of(towpath::find(name).expect("it is there"));
        for name in ["", "a,b", "a+b", "a#2", "exec:a", "A", "a b"] {
            let mut description = of("tcp");
            description.name = name.into();
            assert!(description.into_transport(Path::new("./p")).is_none());
        }
        let mut many = of("xtp");
        while many.options.len() <= OPTIONS_MAX {
            many.options.push(DescribedOption {
                name: format!("o{}", many.options.len()),
                values: String::new(),
                meaning: String::new(),
            });
        }
        assert!(many.into_transport(Path::new("./p")).is_none());
    }
}
