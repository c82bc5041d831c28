//! A script: events with their times. Lines between `#ifdef SYSTEM` and `#endif` count for that system.

use super::value::{Item, Reader, Value};

/// When an event happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// So many nanoseconds after the event in front of it.
    After(u64),
    /// So many nanoseconds after the start.
    At(u64),
    /// `+1.0~+1.5`: between two times after the event in front of it, ns.
    Between(u64, u64),
    /// `*`: at any time.
    Anytime,
}

/// A packet of a script.
#[derive(Clone, Debug, Default)]
pub struct ScriptPacket {
    /// The address it comes from, if it is not the peer's.
    pub source: Option<[u8; 4]>,
    /// The verification tag, if it is not the one that fits.
    pub tag: Option<u32>,
    pub has_bad_checksum: bool,
    pub chunks: Vec<Item>,
    /// Octets behind the common header that are no chunks.
    pub raw: Vec<u8>,
}

/// A call of the socket interface.
#[derive(Clone, Debug)]
pub struct Call {
    pub name: String,
    pub arguments: Vec<Value>,
    pub result: i64,
    /// The error's name if the result is -1.
    pub errno: String,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Action {
    /// A command of the shell, which sets something of the system.
    Shell(String),
    Inject(ScriptPacket),
    Expect(ScriptPacket),
    Call(Call),
}

/// An event.
#[derive(Clone, Debug)]
pub struct ScriptEvent {
    pub line: usize,
    pub when: When,
    pub action: Action,
}

/// A script for one system.
#[derive(Clone, Debug)]
pub struct Script {
    /// How far from its time a packet may leave, ns.
    pub tolerance: u64,
    pub events: Vec<ScriptEvent>,
}

impl Script {
    /// Reads `text` as a script for `system`; the error names the line.
    pub fn parse(text: &str, system: &str) -> Result<Script, String> {
        let mut script = Script {
            tolerance: 4_000_000,
            events: Vec::new(),
        };
        for (line, text) in joined_lines(text, system) {
            let at_line = |error: String| format!("line {line}: {error}");
            if let Some(option) = text.strip_prefix("--") {
                script.set_option(option).map_err(at_line)?;
            } else {
                script
                    .events
                    .push(parse_event(line, &text).map_err(at_line)?);
            }
        }
        Ok(script)
    }

    fn set_option(&mut self, option: &str) -> Result<(), String> {
        let Some(("tolerance_usecs", micros)) = option.trim().split_once('=') else {
            return Err(format!("unknown option --{option}"));
        };
        let micros: u64 = micros
            .parse()
            .map_err(|_| format!("`{micros}` is no number"))?;
        self.tolerance = micros * 1000;
        Ok(())
    }
}

/// Whether a bracket of `text` is not closed.
fn has_open_bracket(text: &str) -> bool {
    let count = |marks: &str| {
        text.chars()
            .filter(|symbol| marks.contains(*symbol))
            .count()
    };
    count("([{") > count(")]}")
}

/// Lines of `system` without comments; one that begins with no time, or stands within brackets, goes on the one
/// in front of it.
fn joined_lines(text: &str, system: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut is_skipped = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default().trim();
        if let Some(directive) = line.strip_prefix('#') {
            is_skipped = directive
                .strip_prefix("ifdef")
                .is_some_and(|known| known.trim() != system);
        } else if !line.is_empty() && !is_skipped {
            let is_event =
                line.starts_with(|first: char| "+*".contains(first) || first.is_ascii_digit());
            match lines.last_mut() {
                Some((_, last))
                    if has_open_bracket(last) || !is_event && !line.starts_with("--") =>
                {
                    last.push(' ');
                    last.push_str(line);
                }
                _ => lines.push((index + 1, line.to_owned())),
            }
        }
    }
    lines
}

fn parse_event(line: usize, text: &str) -> Result<ScriptEvent, String> {
    let (when, rest) = parse_time(text)?;
    let mut reader = Reader::new(rest);
    let action = if reader.take("`") {
        Action::Shell(reader.rest().trim_end_matches('`').to_owned())
    } else if reader.take("<") {
        Action::Inject(parse_packet(&mut reader)?)
    } else if reader.take(">") {
        Action::Expect(parse_packet(&mut reader)?)
    } else {
        Action::Call(parse_call(&mut reader)?)
    };
    Ok(ScriptEvent { line, when, action })
}

fn parse_time(text: &str) -> Result<(When, &str), String> {
    if let Some(rest) = text.strip_prefix('*') {
        return Ok((When::Anytime, rest));
    }
    let Some(rest) = text.strip_prefix('+') else {
        let (at, rest) = parse_seconds(text)?;
        return Ok((When::At(at), rest));
    };
    let (from, rest) = parse_seconds(rest.trim_start())?;
    let Some(until) = rest.strip_prefix("~+") else {
        return Ok((When::After(from), rest));
    };
    let (until, rest) = parse_seconds(until)?;
    Ok((When::Between(from, until), rest))
}

/// Seconds at the front of `text`, in nanoseconds, and the rest.
fn parse_seconds(text: &str) -> Result<(u64, &str), String> {
    let end = text.find(|symbol: char| !(symbol.is_ascii_digit() || symbol == '.'));
    let (seconds, rest) = text.split_at(end.unwrap_or(text.len()));
    let seconds: f64 = seconds
        .parse()
        .map_err(|_| format!("`{seconds}` is no time"))?;
    Ok(((seconds * 1e9).round() as u64, rest))
}

fn parse_packet(reader: &mut Reader<'_>) -> Result<ScriptPacket, String> {
    let mut packet = ScriptPacket::default();
    if !reader.take("sctp") {
        // `< 224.0.0.1 > 192.168.0.1 sctp: ...`
        packet.source = Some(reader.address()?);
        reader.expect(">")?;
        reader.address()?;
        reader.expect("sctp")?;
    }
    if reader.take("(") {
        match reader.name().as_str() {
            "tag" => {
                reader.expect("=")?;
                packet.tag = Some(reader.number()? as u32);
            }
            "bad_crc32c" => packet.has_bad_checksum = true,
            other => return Err(format!("unknown option `{other}` of a packet")),
        }
        reader.expect(")")?;
    }
    reader.expect(":")?;
    if reader.take("[") {
        for value in reader.list("]")? {
            let Value::Number(octet) = value else {
                return Err("an octet is no number".into());
            };
            packet.raw.push(octet as u8);
        }
        return Ok(packet);
    }
    loop {
        match reader.value()? {
            Value::Item(item) => packet.chunks.push(item),
            other => return Err(format!("{other:?} is no chunk")),
        }
        if !reader.take(";") {
            break;
        }
    }
    match reader.rest() {
        "" => Ok(packet),
        rest => Err(format!("`{rest}` behind a packet")),
    }
}

fn parse_call(reader: &mut Reader<'_>) -> Result<Call, String> {
    let name = reader.name();
    reader.expect("(")?;
    let arguments = reader.list(")")?;
    reader.expect("=")?;
    let result = reader.number()?;
    let errno = reader.name();
    Ok(Call {
        name,
        arguments,
        result,
        errno,
    })
}
