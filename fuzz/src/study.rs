//! A study's files from a stranger.

use std::collections::BTreeMap;
use study::Study;
use study::judge::{Outcomes, exhibit, finding};

/// Any octets as the files of a study, `study.toml` first, then a CSV file and the page, with a NUL
/// between them. What is read is judged, without a run, as when all of its runs are left out.
pub fn study(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    let mut parts = text.splitn(3, '\0');
    let names = ["study.toml", "table-1.csv", "page.md"];
    let files: BTreeMap<String, String> = names
        .iter()
        .map(|name| {
            (
                (*name).to_owned(),
                parts.next().unwrap_or_default().to_owned(),
            )
        })
        .collect();
    match Study::parse("fuzzed", "fuzzed", files) {
        Ok(study) => {
            let outcomes = Outcomes::new();
            for wanted in &study.spec.exhibit {
                let judged = exhibit::judge(&study, wanted, &outcomes);
                assert_eq!(judged.columns.len(), wanted.column.len());
            }
            let findings = finding::judge(&study, &outcomes);
            assert_eq!(findings.len(), study.spec.finding.len());
        }
        Err(fault) => {
            let fault = fault.to_string();
            assert_eq!(fault.lines().count(), 1, "{fault:?}");
        }
    }
}
