//! Mutations of the texts that strangers hand over: scenarios, results, keys, reports.

/// Drawn numbers: SplitMix64 (Steele, Lea, Flood 2014), so that a seed names a text.
pub struct Draws(pub u64);

impl Draws {
    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The bias of the remainder does not matter here.
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// What readers of text forget: numbers at the ends of types, brackets, characters of several octets.
const PIECES: [&str; 24] = [
    "0",
    "-1",
    "1e999",
    "nan",
    "0.0000001",
    "255",
    "65536",
    "4294967295",
    "9223372036854775807",
    "18446744073709551616",
    "99999999999999999999999999",
    "\"\"",
    "null",
    "[]",
    "{}",
    "[[[[[[[[",
    "]",
    "}",
    "\n",
    "\0",
    "=",
    "\u{202e}",
    "\u{1f980}",
    "\u{1b}[2J",
];

/// `text` with one to four changes.
pub fn mutated(text: &str, draws: &mut Draws) -> String {
    let mut octets = text.as_bytes().to_vec();
    for _ in 0..=draws.below(4) {
        mutate(&mut octets, draws);
    }
    String::from_utf8_lossy(&octets).into_owned()
}

fn mutate(octets: &mut Vec<u8>, draws: &mut Draws) {
    let at = draws.below(octets.len() + 1);
    let end = (at + 1 + draws.below(40)).min(octets.len());
    let piece = PIECES[draws.below(PIECES.len())];
    match draws.below(6) {
        0 => drop(octets.drain(at..end)),
        1 => {
            let copied = octets[at..end].to_vec();
            octets.splice(at..at, copied);
        }
        2 => drop(octets.splice(at..at, piece.bytes())),
        3 => octets.truncate(at),
        // A number in full, which is what most of these texts consist of.
        _ => {
            let start = octets[at..].iter().position(u8::is_ascii_digit);
            let start = at + start.unwrap_or(0);
            let digits = octets[start..].iter().take_while(|o| o.is_ascii_digit());
            let end = start + digits.count();
            octets.splice(start..end, piece.bytes());
        }
    }
}
