//! Chunks of a script as octets: those that are injected, and those that the engine is to send, in which `...`
//! leaves octets open.

use super::value::{Item, Value};
use engine_sctp::pdu::init::Init;
use engine_sctp::pdu::parameter::{ParameterType, parameters};
use engine_sctp::pdu::{Chunk, ChunkType};

/// Which side a chunk comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Script,
    Engine,
}

/// Numbers of the engine that a script cannot know.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// What is added to a TSN of the script for the engine's.
    pub tsn_offset: u32,
    /// The cookie of the last INIT-ACK.
    pub cookie: Vec<u8>,
    /// Octets are made, not compared: nothing stays open.
    pub injects: bool,
}

/// Octets of a chunk; None for any.
#[derive(Clone, Debug, Default)]
pub struct Pattern {
    cells: Vec<Option<u8>>,
    /// More may follow.
    is_open: bool,
    /// Flag I is not compared: RFC 7053 is younger than the scripts, and leaves it to the sender.
    has_free_flag_i: bool,
}

impl Pattern {
    /// The octets to inject: zeros where any do.
    pub fn octets(&self) -> Vec<u8> {
        let cells = self.cells.iter();
        let mut octets: Vec<u8> = cells.map(|cell| cell.unwrap_or(0)).collect();
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    }

    /// Whether `octets`, a chunk without padding, are such.
    pub fn fits(&self, octets: &[u8]) -> bool {
        let is_long_enough = octets.len() >= self.cells.len();
        let fits = |at: usize| {
            let ignored = if at == 1 && self.has_free_flag_i {
                8
            } else {
                0
            };
            self.cells[at].is_none_or(|cell| cell | ignored == octets[at] | ignored)
        };
        is_long_enough
            && (self.is_open || octets.len() == self.cells.len())
            && (0..self.cells.len()).all(fits)
    }

    fn number(&mut self, number: Option<i64>, len: usize) {
        let octets = number.map(i64::to_be_bytes);
        self.cells
            .extend((8 - len..8).map(|at| octets.map(|octets| octets[at])));
    }

    fn fixed(&mut self, octets: &[u8]) {
        self.cells.extend(octets.iter().copied().map(Some));
    }

    /// A list of octets, or `...` up to `len` octets in all; without a length it stays open.
    fn contents(&mut self, value: &Value, len: Option<i64>) -> Result<(), String> {
        match (value, len) {
            (Value::List(values), _) => {
                for value in values {
                    self.cells.push(Some(number_of(value)? as u8));
                }
            }
            (_, Some(len)) => self
                .cells
                .resize((len as usize).max(self.cells.len()), None),
            _ => self.is_open = true,
        }
        Ok(())
    }

    /// Writes the length into the octets 2 and 3, unless more may follow.
    fn with_length(mut self, len: Option<i64>, live: &Live) -> Pattern {
        self.is_open &= !live.injects;
        let actual = (!self.is_open).then_some(self.cells.len() as i64);
        let octets = len.or(actual).map(|len| (len as u16).to_be_bytes());
        self.cells[2] = octets.map(|octets| octets[0]);
        self.cells[3] = octets.map(|octets| octets[1]);
        self
    }

    /// Appends a parameter or cause, behind padding.
    fn part(&mut self, part: Pattern) {
        self.cells
            .resize(self.cells.len().next_multiple_of(4), Some(0));
        self.cells.extend(part.cells);
        self.is_open |= part.is_open;
    }
}

fn number_of(value: &Value) -> Result<i64, String> {
    match value {
        Value::Number(number) => Ok(*number),
        other => Err(format!("{other:?} is no number")),
    }
}

/// The types of chunks by their names in scripts.
fn chunk_type(name: &str) -> Result<u8, String> {
    let known = [
        ("DATA", ChunkType::DATA),
        ("INIT", ChunkType::INIT),
        ("INIT_ACK", ChunkType::INIT_ACK),
        ("SACK", ChunkType::SACK),
        ("HEARTBEAT", ChunkType::HEARTBEAT),
        ("HEARTBEAT_ACK", ChunkType::HEARTBEAT_ACK),
        ("ABORT", ChunkType::ABORT),
        ("SHUTDOWN", ChunkType::SHUTDOWN),
        ("SHUTDOWN_ACK", ChunkType::SHUTDOWN_ACK),
        ("ERROR", ChunkType::ERROR),
        ("COOKIE_ECHO", ChunkType::COOKIE_ECHO),
        ("COOKIE_ACK", ChunkType::COOKIE_ACK),
        ("SHUTDOWN_COMPLETE", ChunkType::SHUTDOWN_COMPLETE),
        ("I_DATA", ChunkType::I_DATA),
        ("FORWARD_TSN", ChunkType::FORWARD_TSN),
        ("I_FORWARD_TSN", ChunkType::I_FORWARD_TSN),
    ];
    let found = known.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, kind)| kind.0)
        .ok_or_else(|| format!("chunk {name} is not known here"))
}

/// The bits of flags: a number, or symbols.
fn flags_of(item: &Item) -> Result<Option<i64>, String> {
    let symbols = match item.field("flgs") {
        // RFC 3758 and 8260 define no flags of a FORWARD-TSN, and scripts leave them away.
        Value::Any if item.name.contains("FORWARD_TSN") => return Ok(Some(0)),
        Value::Any => return Ok(None),
        Value::Number(number) => return Ok(Some(*number)),
        Value::Word(symbols) => symbols,
        other => return Err(format!("{other:?} are no flags")),
    };
    let mut bits = 0;
    for symbol in symbols.chars() {
        bits |= match symbol {
            'I' => 8,
            'U' => 4,
            'B' => 2,
            'E' | 'T' => 1,
            other => return Err(format!("unknown flag {other}")),
        };
    }
    Ok(Some(bits))
}

/// A chunk of `sender`.
pub fn chunk_pattern(item: &Item, sender: Sender, live: &Live) -> Result<Pattern, String> {
    let mut pattern = Pattern::default();
    let kind = match item.name.as_str() {
        "CHUNK" => match item.field("type") {
            Value::Word(name) => Some(i64::from(chunk_type(name)?)),
            _ => item.number("type")?,
        },
        name => Some(i64::from(chunk_type(name)?)),
    };
    pattern.number(kind, 1);
    let flags = flags_of(item)?;
    pattern.number(flags, 1);
    pattern.has_free_flag_i = sender == Sender::Engine && item.name.ends_with("DATA");
    pattern.fixed(&[0; 2]);
    let len = item.number("len")?;
    // The sender's own TSNs, and those of the other side.
    let (own, other) = match sender {
        Sender::Engine => (live.tsn_offset, 0),
        Sender::Script => (0, live.tsn_offset),
    };
    let tsn = |name: &str, offset: u32| -> Result<Option<i64>, String> {
        let number = item.number(name)?;
        Ok(number.map(|number| i64::from((number as u32).wrapping_add(offset))))
    };
    match item.name.as_str() {
        "DATA" | "I_DATA" => {
            pattern.number(tsn("tsn", own)?, 4);
            data_fields(&mut pattern, item)?;
            pattern.contents(&Value::Any, len)?;
        }
        "INIT" | "INIT_ACK" => {
            // Of the engine's the tag and the TSN are learnt, and its parameters are looked at elsewhere.
            let is_script = sender == Sender::Script;
            let own = |name| Ok::<_, String>(item.number(name)?.filter(|_| is_script));
            pattern.number(own("tag")?, 4);
            pattern.number(item.number("a_rwnd")?, 4);
            pattern.number(item.number("os")?, 2);
            pattern.number(item.number("is")?, 2);
            pattern.number(own("tsn")?, 4);
            if is_script {
                parts(&mut pattern, item, live)?;
            }
            pattern.is_open |= !is_script;
        }
        "SACK" => {
            pattern.number(tsn("cum_tsn", other)?, 4);
            pattern.number(item.number("a_rwnd")?, 4);
            sack_blocks(&mut pattern, item, other)?;
        }
        "SHUTDOWN" => pattern.number(tsn("cum_tsn", other)?, 4),
        "FORWARD_TSN" | "I_FORWARD_TSN" => {
            pattern.number(tsn("cum_tsn", own)?, 4);
            skipped_streams(&mut pattern, item, sender)?;
        }
        "COOKIE_ECHO" if len.is_none() && sender == Sender::Script => pattern.fixed(&live.cookie),
        "COOKIE_ECHO" | "CHUNK" => pattern.contents(item.field("val"), len)?,
        _ => parts(&mut pattern, item, live)?,
    }
    Ok(pattern.with_length(len, live))
}

fn data_fields(pattern: &mut Pattern, item: &Item) -> Result<(), String> {
    pattern.number(item.number("sid")?, 2);
    if item.name == "DATA" {
        pattern.number(item.number("ssn")?, 2);
        pattern.number(item.number("ppid")?, 4);
        return Ok(());
    }
    pattern.fixed(&[0; 2]);
    pattern.number(item.number("mid")?, 4);
    // One field: the payload protocol identifier of a first fragment, the number of others.
    let ppid = item.number("ppid")?;
    pattern.number(ppid.or(item.number("fsn")?), 4);
    Ok(())
}

fn sack_blocks(pattern: &mut Pattern, item: &Item, offset: u32) -> Result<(), String> {
    let (gaps, dups) = (item.list("gaps")?, item.list("dups")?);
    pattern.number(gaps.map(|gaps| gaps.len() as i64), 2);
    pattern.number(dups.map(|dups| dups.len() as i64), 2);
    for gap in gaps.unwrap_or_default() {
        let Value::Range(start, end) = gap else {
            return Err(format!("{gap:?} is no block"));
        };
        pattern.number(Some(*start), 2);
        pattern.number(Some(*end), 2);
    }
    for dup in dups.unwrap_or_default() {
        let tsn = (number_of(dup)? as u32).wrapping_add(offset);
        pattern.number(Some(i64::from(tsn)), 4);
    }
    pattern.is_open |= gaps.is_none() || dups.is_none();
    Ok(())
}

/// The streams of a FORWARD-TSN: `{stream, number}`, and with I-DATA `{stream, unordered, number}`. The engine
/// names each once, in their order; some systems do so once a chunk.
fn skipped_streams(pattern: &mut Pattern, item: &Item, sender: Sender) -> Result<(), String> {
    let Some(ids) = item.list("ids")? else {
        pattern.is_open = true;
        return Ok(());
    };
    let widths: &[usize] = match item.name.as_str() {
        "FORWARD_TSN" => &[2, 2],
        _ => &[2, 2, 4],
    };
    let mut entries = Vec::new();
    for id in ids {
        let Value::Item(id) = id else {
            return Err(format!("{id:?} is no stream"));
        };
        let numbers = id.fields.iter().map(|(_, value)| number_of(value));
        entries.push(numbers.collect::<Result<Vec<i64>, String>>()?);
    }
    if sender == Sender::Engine {
        entries.sort();
        entries.dedup();
    }
    for entry in entries {
        for (number, width) in entry.into_iter().zip(widths) {
            pattern.number(Some(number), *width);
        }
    }
    Ok(())
}

/// The parameters or causes of a chunk.
fn parts(pattern: &mut Pattern, item: &Item, live: &Live) -> Result<(), String> {
    let (parts, is_open) = item.parts();
    for part in parts {
        pattern.part(part_pattern(part, live)?);
    }
    pattern.is_open |= is_open;
    Ok(())
}

/// The codes of parameters and causes by their names in scripts.
const PARTS: [(&str, u16); 19] = [
    ("HEARTBEAT_INFORMATION", 1),
    ("IPV4_ADDRESS", 5),
    ("IPV6_ADDRESS", 6),
    ("STATE_COOKIE", 7),
    ("UNRECOGNIZED_PARAMETER", 8),
    ("COOKIE_PRESERVATIVE", 9),
    ("HOSTNAME_ADDRESS", 11),
    ("SUPPORTED_ADDRESS_TYPES", 12),
    ("ECN_CAPABLE", 0x8000),
    ("SUPPORTED_EXTENSIONS", 0x8008),
    ("FORWARD_TSN_SUPPORTED", 0xc000),
    ("INVALID_STREAM_IDENTIFIER", 1),
    ("MISSING_MANDATORY_PARAMETER", 2),
    ("STALE_COOKIE_ERROR", 3),
    ("UNRESOLVABLE_ADDRESS", 5),
    ("UNRECOGNIZED_CHUNK_TYPE", 6),
    ("UNRECOGNIZED_PARAMETERS", 8),
    ("NO_USER_DATA", 9),
    ("PROTOCOL_VIOLATION", 13),
];

fn part_code(item: &Item) -> Result<Option<i64>, String> {
    match item.name.as_str() {
        "PARAMETER" | "CAUSE" => item.number("type"),
        "INVALID_MANDATORY_PARAMETER" => Ok(Some(7)),
        name => {
            let found = PARTS.iter().find(|(known, _)| *known == name);
            let code = found.map(|(_, code)| Some(i64::from(*code)));
            code.ok_or_else(|| format!("{name} is not known here"))
        }
    }
}

fn part_pattern(item: &Item, live: &Live) -> Result<Pattern, String> {
    let mut pattern = Pattern::default();
    pattern.number(part_code(item)?, 2);
    pattern.fixed(&[0; 2]);
    let len = item.number("len")?;
    match item.name.as_str() {
        "IPV4_ADDRESS" | "IPV6_ADDRESS" => address(&mut pattern, item.field("addr"))?,
        "HOSTNAME_ADDRESS" => match item.field("addr") {
            // The name ends with a zero (RFC 9260 section 3.3.2.1).
            Value::Text(name) => pattern.fixed(&[name.as_bytes(), &[0]].concat()),
            _ => pattern.is_open = true,
        },
        "SUPPORTED_ADDRESS_TYPES" | "SUPPORTED_EXTENSIONS" | "MISSING_MANDATORY_PARAMETER" => {
            types(&mut pattern, item)?;
        }
        "COOKIE_PRESERVATIVE" => pattern.number(item.number("incr")?, 4),
        "STALE_COOKIE_ERROR" => pattern.number(item.number("staleness")?, 4),
        "NO_USER_DATA" => pattern.number(item.number("tsn")?, 4),
        "INVALID_STREAM_IDENTIFIER" => {
            pattern.number(item.number("sid")?, 2);
            pattern.fixed(&[0; 2]);
        }
        "UNRECOGNIZED_CHUNK_TYPE" => match item.field("chk") {
            Value::Item(chunk) => pattern.part(chunk_pattern(chunk, Sender::Script, live)?),
            _ => pattern.is_open = true,
        },
        "UNRECOGNIZED_PARAMETER" | "UNRECOGNIZED_PARAMETERS" | "UNRESOLVABLE_ADDRESS" => {
            nested(&mut pattern, item, live)?;
        }
        "ECN_CAPABLE" | "FORWARD_TSN_SUPPORTED" | "INVALID_MANDATORY_PARAMETER" => {}
        _ => pattern.contents(item.field("val"), len)?,
    }
    Ok(pattern.with_length(len, live))
}

fn nested(pattern: &mut Pattern, item: &Item, live: &Live) -> Result<(), String> {
    let single = core::slice::from_ref(item.field("param"));
    let several = item.list("params")?.unwrap_or(single);
    for value in several {
        match value {
            Value::Item(parameter) => pattern.part(part_pattern(parameter, live)?),
            _ => pattern.is_open = true,
        }
    }
    Ok(())
}

fn address(pattern: &mut Pattern, value: &Value) -> Result<(), String> {
    match value {
        Value::Address(octets) => pattern.fixed(octets),
        Value::Text(text) => {
            let parsed: Result<std::net::Ipv6Addr, _> = text.parse();
            let parsed = parsed.map_err(|_| format!("`{text}` is no address"))?;
            pattern.fixed(&parsed.octets());
        }
        other => return Err(format!("{other:?} is no address")),
    }
    Ok(())
}

/// Types of addresses, chunks or parameters.
fn types(pattern: &mut Pattern, item: &Item) -> Result<(), String> {
    let Some(types) = item.list("types")? else {
        pattern.is_open = true;
        return Ok(());
    };
    let is_extensions = item.name == "SUPPORTED_EXTENSIONS";
    if item.name == "MISSING_MANDATORY_PARAMETER" {
        pattern.number(Some(types.len() as i64), 4);
    }
    for value in types {
        let number = match value {
            Value::Number(number) => *number,
            Value::Word(word) if is_extensions && word == "NR_SACK" => 0x10,
            Value::Word(word) if is_extensions => i64::from(chunk_type(word)?),
            Value::Word(word) if word == "IPv4" => 5,
            Value::Word(word) if word == "IPv6" => 6,
            other => return Err(format!("unknown type {other:?}")),
        };
        pattern.number(Some(number), if is_extensions { 1 } else { 2 });
    }
    Ok(())
}

/// Whether the INIT or INIT-ACK of the engine has the parameters of `item`. Their order is free, and families of
/// addresses, ECN and the cookie say how a stack is built: partial reliability, interleaving and reports of
/// unknown parameters are compared. A list of extensions is only where a script names one: Linux has none.
pub fn parameters_fit(item: &Item, chunk: &Chunk<'_>, live: &Live) -> Result<bool, String> {
    let (expected, is_open) = item.parts();
    if Init::parse(chunk.value).is_err() {
        return Ok(false);
    }
    let names_extensions = expected
        .iter()
        .any(|part| part.name == "SUPPORTED_EXTENSIONS");
    let is_compared = |kind: ParameterType| match kind {
        ParameterType::FORWARD_TSN | ParameterType::UNRECOGNIZED => true,
        ParameterType::SUPPORTED_EXTENSIONS => names_extensions,
        _ => false,
    };
    let sent = parameters(chunk.value.get(16..).unwrap_or_default());
    let mut sent: Vec<Vec<u8>> = sent
        .filter(|one| is_compared(one.kind))
        .map(|one| compared(one.octets))
        .collect();
    for part in expected {
        let octets = part_pattern(part, live)?;
        let kind = ParameterType(part_code(part)?.unwrap_or(0) as u16);
        if !is_compared(kind) {
            continue;
        }
        let wanted = compared(&octets.octets()[..octets.cells.len()]);
        match sent.iter().position(|one| *one == wanted) {
            Some(at) => drop(sent.swap_remove(at)),
            None => return Ok(false),
        }
    }
    Ok(is_open || sent.is_empty())
}

/// A parameter as it is compared: the chunk types of extensions have no order.
fn compared(octets: &[u8]) -> Vec<u8> {
    let mut octets = octets.to_vec();
    if octets.starts_with(&ParameterType::SUPPORTED_EXTENSIONS.0.to_be_bytes()) {
        octets[4..].sort_unstable();
    }
    octets
}
