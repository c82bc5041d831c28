//! The page of all studies, with the thread that runs through them: what a message costs, what a byte
//! costs, and who wins where.

use super::{Ran, text};
use report::{IndexPage, IndexStudy};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use study::judge::cost::{self, Cost};
use study::judge::finding::Word;

/// The page as HTML; `base` is the folder of the studies as the page sees it.
pub fn html(all: &[Ran], base: &Path) -> String {
    let entries = all.iter().map(|ran| entry(ran, base));
    let mut studies: Vec<(u32, IndexStudy)> = entries.collect();
    studies.sort_by_key(|(year, _)| *year);
    let years: Vec<u32> = studies.iter().map(|(year, _)| *year).collect();
    let first = years.first().copied().unwrap_or_default();
    report::studies_html(&IndexPage {
        title: format!("{} studies of transports, {first} to today", studies.len()),
        lead: vec![
            "A message costs a fixed time, whatever is in it, and a time for each byte. The first \
             decides who wins with short messages, the second who wins with long ones, and each of \
             these studies asks what the two are made of: system calls and copies, control packets, \
             cells, wake-ups."
                .to_owned(),
        ],
        studies: studies.into_iter().map(|(_, study)| study).collect(),
    })
}

/// Who is fastest at which size, for every race of several contestants; sizes with the same winner
/// are one part of the sentence.
fn winners(ran: &Ran) -> Vec<String> {
    let outcomes = ran.outcomes.iter();
    let sentences = outcomes.filter_map(|(id, outcome)| {
        let mut best: BTreeMap<u64, (f64, String)> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for point in &outcome.as_ref().ok()?.points {
            let cell = results::Cell(point.factors.clone());
            // A race with loads is about the loads, not about who wins.
            let is_loaded = ["sender_load", "receiver_load", "link_load"]
                .iter()
                .any(|name| cell.0.contains_key(*name));
            let (Some(size), false) = (cell.size(), is_loaded) else {
                continue;
            };
            let rates = point.replicates.values();
            let rates = rates.filter_map(|values| values.get(results::metric::MESSAGES_PER_S));
            let rates: Vec<f64> = rates.copied().collect();
            if rates.is_empty() {
                continue;
            }
            let rate = stats::estimate::median(&rates);
            names.insert(cell.transport());
            let entry = best.entry(size).or_insert((rate, cell.transport()));
            if rate > entry.0 {
                *entry = (rate, cell.transport());
            }
        }
        (names.len() > 1).then(|| winners_text(id, &best))
    });
    sentences.collect()
}

/// `Run throughput, most messages received (medians): tcp from 64 B on, xtp from 1 KiB on.`
fn winners_text(id: &str, best: &BTreeMap<u64, (f64, String)>) -> String {
    let mut parts: Vec<(u64, &str)> = Vec::new();
    for (size, (_, name)) in best {
        if parts.last().is_none_or(|(_, last)| last != name) {
            parts.push((*size, name));
        }
    }
    let parts = parts.iter().map(|(size, name)| {
        format!(
            "{name} from {} on",
            results::phrasing::size_text(*size as f64)
        )
    });
    let parts: Vec<String> = parts.collect();
    format!(
        "Run {id}, most messages received (medians): {}.",
        parts.join(", ")
    )
}

/// Fixed cost and cost of a byte of every column whose rows are sizes, then and now.
fn costs(ran: &Ran) -> Vec<[String; 4]> {
    let exhibits = ran.selection.study.spec.exhibit.iter().zip(&ran.judged);
    let by_size = exhibits.filter(|(exhibit, _)| {
        let row = exhibit.row.as_ref();
        row.is_some_and(|row| row.measure.get_ref() == results::Cell::SIZE)
    });
    let rows = by_size.flat_map(|(exhibit, judged)| {
        judged.columns.iter().filter_map(|column| {
            let costs = cost::of_column(column);
            costs.iter().any(Option::is_some).then(|| {
                let [then, now] = costs.map(cost_text);
                [exhibit.title.clone(), column.name.clone(), then, now]
            })
        })
    });
    rows.collect()
}

fn cost_text(cost: Option<Cost>) -> String {
    let Some(cost) = cost else {
        return "-".to_owned();
    };
    let fixed = match cost.fixed_us {
        us if us >= 1000.0 => format!("{:.2} ms", us / 1000.0),
        us if us > 0.0 => format!("{us:.2} us"),
        _ => "nothing".to_owned(),
    };
    format!("{fixed} + {} ns a byte", text::short(cost.byte_ns))
}

fn entry(ran: &Ran, base: &Path) -> (u32, IndexStudy) {
    let study = &ran.selection.study;
    let paper = study.spec.paper.get_ref();
    let count = |wanted: &dyn Fn(&Word) -> bool| {
        ran.findings
            .iter()
            .filter(|finding| wanted(&finding.word))
            .count()
    };
    let held = count(&|word| matches!(word, Word::Held));
    let less = count(&|word| matches!(word, Word::HeldByLess));
    let not = count(&|word| matches!(word, Word::DidNotHold));
    let mut entry = IndexStudy {
        costs: costs(ran),
        href: base
            .join(&study.key)
            .join("report.html")
            .display()
            .to_string(),
        title: study.spec.title.clone(),
        cites: paper.cites.clone(),
        lines: vec![
            text::exhibits_text(ran),
            format!(
                "{} findings: {held} held, {less} held by less, {not} did not hold, {} not decided \
                 or not checked.",
                ran.findings.len(),
                ran.findings.len() - held - less - not
            ),
        ],
        findings: ran
            .findings
            .iter()
            .filter(|finding| !matches!(finding.word, Word::NotChecked(_)))
            .map(|finding| {
                (
                    finding.says.clone(),
                    finding.word.text(),
                    finding.found.clone(),
                )
            })
            .collect(),
    };
    entry.lines.extend(winners(ran));
    (paper.year, entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_the_same_winner_are_one_part() {
        let winner = |name: &str| (1.0, name.to_owned());
        let best = [
            (64, winner("tcp")),
            (128, winner("tcp")),
            (1024, winner("xtp")),
        ];
        let said = winners_text("sizes", &best.into_iter().collect());
        assert!(
            said.ends_with("tcp from 64 B on, xtp from 1 KiB on."),
            "{said}"
        );
    }
}
