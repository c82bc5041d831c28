//! Numbers of tables and figures: `table 2, figures 8-10, 12`.

use std::fmt;

/// What a paper numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A table.
    Table,
    /// A figure.
    Figure,
    /// A table of an appendix, which is not counted among the tables.
    Appendix,
    /// A question that the paper left open, which is not counted either.
    Extension,
}

/// One table or figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number {
    /// What it is.
    pub kind: Kind,
    /// Its number, from 1.
    pub number: u32,
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Table => "table",
            Kind::Figure => "figure",
            Kind::Appendix => "appendix",
            Kind::Extension => "extension",
        };
        write!(f, "{kind} {}", self.number)
    }
}

/// Most tables or figures of a paper.
pub const NUMBER_MAX: u32 = 1000;

/// The numbers in `text`.
///
/// # Errors
///
/// One line with what would be right.
pub fn numbers(text: &str) -> Result<Vec<Number>, String> {
    let wrong =
        |part: &str| format!("{part:?} names no table or figure; write \"table 2, figures 8-10\"");
    let mut kind = None;
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (word, rest) = part.split_once(' ').unwrap_or(("", part));
        kind = match word {
            "" => kind,
            "table" | "tables" => Some(Kind::Table),
            "figure" | "figures" => Some(Kind::Figure),
            "appendix" => Some(Kind::Appendix),
            "extension" | "extensions" => Some(Kind::Extension),
            _ => return Err(wrong(part)),
        };
        let kind = kind.ok_or_else(|| wrong(part))?;
        let (first, last) = rest.split_once('-').unwrap_or((rest, rest));
        let parsed = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong(part));
        let (first, last) = (parsed(first)?, parsed(last)?);
        if first == 0 || last < first || last > NUMBER_MAX {
            return Err(wrong(part));
        }
        all.extend((first..=last).map(|number| Number { kind, number }));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_of_table_and_range_gives_each_number() {
        let all = numbers("table 2, figures 8-10, 12").expect("numbers");
        let text: Vec<String> = all.iter().map(Number::to_string).collect();
        assert_eq!(
            text,
            ["table 2", "figure 8", "figure 9", "figure 10", "figure 12"]
        );
    }

    #[test]
    fn shows_without_kind_or_number_is_refused() {
        for text in [
            "",
            "2",
            "picture 3",
            "table x",
            "tables 5-3",
            "table 0",
            "table 1-99999",
        ] {
            assert!(numbers(text).is_err(), "{text:?}");
        }
    }
}
