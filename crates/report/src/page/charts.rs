//! Figures: a chart with its caption, and its numbers.

use crate::chart::{Plot, draw, number_text, numbers};
use crate::quantity;
use serde::Serialize;

/// One chart of a page.
#[derive(Serialize)]
pub(crate) struct Figure {
    caption: String,
    svg: String,
    numbers: Option<Numbers>,
}

/// The numbers of a chart as a table.
#[derive(Serialize)]
struct Numbers {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A chart as files: a picture and its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFile {
    /// What it shows, as a file name without extension: letters, digits and hyphens.
    pub name: String,
    /// The picture, with its own style sheet for light and dark.
    pub svg: String,
    /// The numbers: a row a point.
    pub csv: String,
}

impl Figure {
    /// A drawn figure without a table of its numbers.
    pub fn new(caption: &str, plot: &Plot) -> Figure {
        Figure {
            caption: caption.to_owned(),
            svg: draw(plot),
            numbers: None,
        }
    }

    /// A drawn figure with its numbers; `label` names a contestant.
    pub fn with_numbers(caption: &str, plot: &Plot, label: impl Fn(usize) -> String) -> Figure {
        Figure {
            numbers: table(plot, label),
            ..Figure::new(caption, plot)
        }
    }

    /// The figure as files; `section` is put before its caption in the name.
    pub fn file(&self, section: &str) -> ChartFile {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in self.numbers.iter().flat_map(|numbers| {
            let header = std::iter::once(&numbers.columns);
            header.chain(&numbers.rows)
        }) {
            // Writing to memory fails only for rows of unequal length, and these are equal.
            let _ = writer.write_record(row.iter().map(|text| crate::export::text(text)));
        }
        let bytes = writer.into_inner().unwrap_or_default();
        ChartFile {
            name: file_name(&format!("{section} {}", self.caption)),
            svg: standalone(&self.svg),
            csv: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }
}

fn table(plot: &Plot, label: impl Fn(usize) -> String) -> Option<Numbers> {
    let all = numbers(plot);
    if all.is_empty() {
        return None;
    }
    let named = |title: &str, usual: &str| match title {
        "" => usual.to_owned(),
        title => title.to_owned(),
    };
    let mut columns = vec![
        "curve".to_owned(),
        named(plot.x.title(), "x"),
        named(plot.y.title(), "y"),
    ];
    if !plot.bars.is_empty() {
        columns = ["bar", "from", "to"].map(str::to_owned).into();
    }
    let intervals = all.iter().any(|number| number.interval.is_some());
    if intervals {
        columns.extend(["low", "high"].map(str::to_owned));
    }
    let rows = all.iter().map(|number| {
        let mut row = vec![label(number.contestant)];
        row.extend([number.x, number.y].map(number_text));
        if intervals {
            let ends = number.interval.map(|(low, high)| [low, high]);
            let ends = ends.map(|ends| ends.map(number_text));
            row.extend(ends.unwrap_or_default());
        }
        row
    });
    Some(Numbers {
        rows: rows.collect(),
        columns,
    })
}

/// A picture that needs no page: with its name space and the style sheet.
fn standalone(svg: &str) -> String {
    let style = super::STYLE.replace('&', "&amp;").replace('<', "&lt;");
    svg.replacen(
        "<svg class=\"chart\"",
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\"",
        1,
    )
    .replacen(
        "\">",
        &format!("\"><style>{style} svg {{ background: var(--paper); }}</style>"),
        1,
    )
}

/// Maximum length of a file's name, far below the 255 octets of a file system.
const NAME_MAX: usize = 80;

/// A text as a file name without extension.
pub(crate) fn file_name(text: &str) -> String {
    let mut name = String::new();
    for character in quantity::clean(text, 200).to_lowercase().chars() {
        match character {
            'a'..='z' | '0'..='9' => name.push(character),
            _ if name.ends_with('-') || name.is_empty() => {}
            _ => name.push('-'),
        }
    }
    name.truncate(NAME_MAX);
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_hold_letters_digits_and_single_hyphens() {
        assert_eq!(file_name("../Delay, 99 %: at 1 KiB"), "delay-99-at-1-kib");
        assert_eq!(file_name(&"a".repeat(300)).len(), NAME_MAX);
    }
}
