//! A file of contestants.
//!
//! ```toml
//! [mine]                                       # raced as exec:mine
//! about = "my server, over TCP"
//! server = ["./mine", "--listen", "{host}:{port}"]
//! ready = "tcp"                                # its port listens; or "udp", or { output = "text" }
//!
//! [mine.throughput]                            # and [mine.delay]
//! client = ["./mine", "--to", "{host}:{port}", "--bytes", "{size}", "--time", "{seconds}"]
//! number = { regex = '([0-9.]+) Mbit/s', unit = "Mbit/s" }
//! ```

use super::number::Number;
use control::Readiness;
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Octets of a file of contestants, at most.
const FILE_MAX: u64 = 256 << 10;

/// What the words of a program may hold in braces.
const PLACEHOLDERS: [&str; 5] = ["{host}", "{port}", "{size}", "{seconds}", "{circuits}"];

/// Contestants by name.
pub type Definitions = BTreeMap<String, Definition>;

/// A program that can race.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What it is, for readers of a result.
    #[serde(default)]
    pub about: String,
    /// Its server, and the server's arguments.
    #[serde(deserialize_with = "words")]
    pub server: Vec<String>,
    /// How the server is seen to be ready.
    #[serde(deserialize_with = "readiness")]
    pub ready: Readiness,
    /// Whether the server ends by itself after its client.
    #[serde(default)]
    pub server_ends: bool,
    /// What it does in workload throughput, where it can.
    throughput: Option<Measurement>,
    /// What it does in workload delay, where it can.
    delay: Option<Measurement>,
}

impl Definition {
    /// What it can measure, by workload.
    pub fn workloads(&self) -> BTreeMap<&'static str, &Measurement> {
        let all = [("throughput", &self.throughput), ("delay", &self.delay)];
        let given = all.into_iter();
        given
            .filter_map(|(name, one)| Some((name, one.as_ref()?)))
            .collect()
    }
}

/// A client of one workload, and its number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// The client, and its arguments.
    #[serde(deserialize_with = "words")]
    pub client: Vec<String>,
    /// Where the number is that verdicts are about.
    pub(crate) number: Number,
    /// Further numbers, by the name of a measure.
    #[serde(default)]
    pub(crate) also: BTreeMap<String, Number>,
    /// Whether the traffic crosses the interface of its host, which the number is then checked with.
    #[serde(default = "yes")]
    pub checked: bool,
}

impl Measurement {
    /// Whether its client holds this placeholder, `{size}`.
    pub fn has(&self, placeholder: &str) -> bool {
        self.client.iter().any(|word| word.contains(placeholder))
    }

    /// Whether a number is counted on the interface of a testbed host.
    pub fn counts_on_interface(&self) -> bool {
        self.number.is_counted()
    }
}

fn yes() -> bool {
    true
}

/// Reads a file of contestants.
///
/// # Errors
///
/// One sentence that starts with `FILE:LINE:COLUMN:` where a place is at fault.
pub fn read(path: &Path) -> Result<Definitions, String> {
    let text = results::bounded_file::read_text(path, FILE_MAX)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    parse(path, &text)
}

/// Reads the text of a file of contestants. Errors are those of [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Definitions, String> {
    let fault = |span: Option<Range<usize>>, message: &str| {
        let (line, column) = place(text, span.map_or(0, |span| span.start));
        let message = message.trim().replace('\n', "; ");
        format!("{}:{line}:{column}: {message}", path.display())
    };
    let all: BTreeMap<toml::Spanned<String>, Definition> =
        toml::from_str(text).map_err(|error| fault(error.span(), error.message()))?;
    if all.is_empty() {
        return Err(format!(
            "{}: there is no contestant in it; start one with [NAME]",
            path.display()
        ));
    }
    for (name, definition) in &all {
        check_name(name.get_ref())
            .and_then(|()| check(definition))
            .map_err(|why| fault(Some(name.span()), &why))?;
    }
    let named = all.into_iter();
    Ok(named
        .map(|(name, definition)| (name.into_inner(), definition))
        .collect())
}

/// A name goes into labels, whose marks it must not have.
fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match !name.is_empty() && name.len() <= 40 && name.chars().all(allowed) {
        true => Ok(()),
        false => Err(format!(
            "'{name}' is no name of a contestant; use up to 40 letters, digits, '-', '_' and '.'"
        )),
    }
}

/// What the parts of a definition must agree on.
fn check(definition: &Definition) -> Result<(), String> {
    if definition.workloads().is_empty() {
        return Err("it measures nothing; add [NAME.throughput] or [NAME.delay]".into());
    }
    let has = |words: &[String], text: &str| words.iter().any(|word| word.contains(text));
    if !has(&definition.server, "{port}") {
        return Err("its server has no {port}, so that it cannot be given a free one".into());
    }
    for (workload, measurement) in definition.workloads() {
        if !measurement.has("{port}") {
            return Err(format!("its client of {workload} has no {{port}}"));
        }
        let primary = results::metric::primary(workload);
        measurement.number.check(primary, workload)?;
        for (name, number) in &measurement.also {
            number.check(name, workload)?;
        }
    }
    Ok(())
}

/// Line and column of an octet, both from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default();
    (line, column.chars().count() + 1)
}

/// A program and its arguments, whose placeholders are known.
fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let words = Vec::<String>::deserialize(from)?;
    if words.first().is_none_or(String::is_empty) {
        return Err(de::Error::custom(
            "give a program and its arguments, [\"program\", ...]",
        ));
    }
    for word in &words {
        let unknown = unknown_placeholder(word);
        if let Some(unknown) = unknown {
            return Err(de::Error::custom(format!(
                "unknown {unknown}; there are {}",
                PLACEHOLDERS.join(" ")
            )));
        }
    }
    Ok(words)
}

/// A lower-case word in braces that is no placeholder. Other braces are a shell's.
fn unknown_placeholder(word: &str) -> Option<String> {
    let mut rest = word;
    while let Some(open) = rest.find('{') {
        // ${name} is a variable of a shell.
        let is_shell = rest[..open].ends_with('$');
        rest = &rest[open..];
        let close = rest.find('}')?;
        let name = &rest[..=close];
        let inner = &name[1..close];
        let is_word = !inner.is_empty() && inner.chars().all(|c| c.is_ascii_lowercase());
        if is_word && !is_shell && !PLACEHOLDERS.contains(&name) {
            return Some(name.to_owned());
        }
        rest = &rest[1..];
    }
    None
}

fn readiness<'de, D: Deserializer<'de>>(from: D) -> Result<Readiness, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Output {
        output: String,
    }
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "ready is \"tcp\", \"udp\", or { output = \"text\" }"
    )]
    enum Written {
        Name(String),
        Output(Output),
    }
    match Written::deserialize(from)? {
        Written::Name(name) if name == "tcp" => Ok(Readiness::Tcp),
        Written::Name(name) if name == "udp" => Ok(Readiness::Udp),
        Written::Output(Output { output }) if !output.is_empty() => Ok(Readiness::Line(output)),
        _ => Err(de::Error::custom(
            "ready is \"tcp\", \"udp\", or { output = \"text\" }",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: &str = r#"
[mine]
server = ["./mine", "{host}:{port}"]
ready = "tcp"

[mine.throughput]
client = ["./mine", "{host}:{port}", "{size}"]
number = { regex = '([0-9.]+) Mbit/s', unit = "Mbit/s" }
"#;

    fn refusal(text: &str) -> String {
        parse(Path::new("f.toml"), text).expect_err(text)
    }

    #[test]
    fn definition_has_a_server_a_client_and_a_number() {
        let all = parse(Path::new("f.toml"), MINE).expect("a contestant");
        let mine = &all["mine"];
        assert_eq!(mine.ready, Readiness::Tcp);
        assert!(mine.workloads()["throughput"].has("{size}"));
        assert!(!mine.workloads()["throughput"].has("{circuits}"));
    }

    #[test]
    fn faults_have_line_and_column() {
        for (from, to, wanted) in [
            (
                "ready = \"tcp\"",
                "ready = \"soon\"",
                "f.toml:4:9: ready is",
            ),
            ("ready = \"tcp\"", "ready = ", "f.toml:4:"),
            ("{size}", "{length}", "f.toml:7:10: unknown {length}"),
            ("([0-9.]+)", "([0-9.]+", "f.toml:8:"),
            ("([0-9.]+)", "[0-9.]+", "has no group"),
            ("\"Mbit/s\" }", "\"furlong\" }", "f.toml:8:"),
            ("\"Mbit/s\" }", "\"ms\" }", "ms is no unit of throughput"),
            ("[mine.throughput]", "[mine.speed]", "unknown field `speed`"),
            (":{port}\"]", "\"]", "its server has no {port}"),
        ] {
            let why = refusal(&MINE.replacen(from, to, 1));
            assert!(why.contains(wanted), "{to}: {why}");
        }
        let why = refusal(&MINE.replace("[mine", "[\"my,own\""));
        assert!(why.starts_with("f.toml:"), "{why}");
        assert!(why.contains(": 'my,own' is no name"), "{why}");
        assert!(refusal("").contains("there is no contestant"));
    }

    #[test]
    fn braces_of_a_shell_are_no_placeholders() {
        assert_eq!(unknown_placeholder("{ echo ${port} $x; } {size}"), None);
        assert_eq!(unknown_placeholder("a{what}"), Some("{what}".into()));
    }
}
