//! A small study in memory.

use results::Factor;
use std::collections::BTreeMap;
use study::Study;
use study::judge::Outcomes;
use study::outcome::{Outcome, Point};

pub const CSV: &str = "size,tcp,udp\n64,100,200\n1024,90,95.5\n16384,50,\n";

pub const PAGE: &str = "# A study\n\n## Asked\n\nWhich is faster? Figure 2 is a photograph.\n";

pub const TEXT: &str = r#"
title = "A study of two transports"

[paper]
cites = "Nobody, Nothing, 1999"
year = 1999
tables = 1
figures = 2

[measure]
rate = "messages_per_s / 10"

[[run]]
id = "both"
race = "tcp udp --sizes 64,1KiB,16KiB -w throughput"
quick = "tcp udp --sizes 64,1KiB,16KiB -w throughput --blocks 3"

[[exhibit]]
shows = "table 1, figure 1"
title = "Rates by size"
csv = "table-1.csv"
row = { measure = "size" }
judged = "10 %"
misprint = [{ row = 1024, column = "udp", because = "it is below its neighbours" }]

[[exhibit.column]]
name = "tcp"
csv = "tcp"
run = "both"
contestant = "tcp"
measure = "rate"
unit = "/s"

[[exhibit.column]]
name = "udp"
csv = "udp"
run = "both"
contestant = "udp"
measure = "rate"

[[finding]]
says = "UDP sends short messages at 1.5 times the rate of TCP."
ratio = { of = { run = "both", contestant = "udp", measure = "rate", at = { size = 64 } }, to = { run = "both", contestant = "tcp", measure = "rate", at = { size = 64 } }, at_least = 1.5 }
"#;

/// Files of the small study, `study.toml` replaced.
pub fn files(text: &str) -> BTreeMap<String, String> {
    [
        ("study.toml", text),
        ("page.md", PAGE),
        ("table-1.csv", CSV),
    ]
    .into_iter()
    .map(|(name, text)| (name.to_owned(), text.to_owned()))
    .collect()
}

pub fn parse(text: &str) -> Result<Study, String> {
    Study::parse("small", "small", files(text)).map_err(|error| error.to_string())
}

/// The small study with one more finding.
pub fn with_finding(finding: &str) -> Study {
    parse(&format!(
        "{TEXT}\n[[finding]]\nsays = \"It is so.\"\n{finding}\n"
    ))
    .expect("a study")
}

/// A race's outcome: a rate for each transport, size and block.
pub fn outcomes(blocks: u64, rate: impl Fn(&str, i64, u64) -> f64) -> Outcomes {
    let mut points = Vec::new();
    for transport in ["tcp", "udp"] {
        for size in [64, 1024, 16_384] {
            let mut point = Point::default();
            point
                .factors
                .insert("transport".to_owned(), Factor::from(transport));
            point
                .factors
                .insert("size".to_owned(), Factor::Integer(size));
            for block in 1..=blocks {
                let value = rate(transport, size, block);
                let values = [("messages_per_s".to_owned(), value)];
                point.replicates.insert(block, values.into_iter().collect());
            }
            points.push(point);
        }
    }
    let outcome = Outcome {
        points,
        is_measured: true,
    };
    [("both".to_owned(), Ok(outcome))].into_iter().collect()
}
