//! The page of a study.

use super::{Ran, text};
use report::{StudyChart, StudyCurve, StudyExhibit, StudyFinding, StudyPage};
use study::folder::RunState;
use study::form::spec::ExhibitSpec;
use study::form::words;
use study::judge::exhibit::{Column, Judged, Standing};
use study::judge::finding::Word;

/// The page as HTML.
pub fn html(ran: &Ran) -> String {
    report::study_html(&page(ran))
}

/// The page.
pub fn page(ran: &Ran) -> StudyPage {
    let study = &ran.selection.study;
    let paper = study.spec.paper.get_ref();
    let exhibits = study.spec.exhibit.iter().zip(&ran.judged);
    let wanted = exhibits
        .zip(&ran.selection.exhibits)
        .filter(|(_, wanted)| **wanted);
    let findings = ran.findings.iter().map(|finding| StudyFinding {
        says: finding.says.clone(),
        word: finding.word.text(),
        found: finding.found.clone(),
        is_good: matches!(finding.word, Word::Held | Word::HeldByLess),
        is_bad: finding.word == Word::DidNotHold,
    });
    let mut machine = ran.result.facts.clone();
    machine.insert(0, ("machine".to_owned(), ran.result.machine.clone()));
    machine.push(("program".to_owned(), ran.result.build.clone()));
    machine.extend(
        ran.result
            .to
            .iter()
            .map(|host| ("raced against".to_owned(), host.clone())),
    );
    StudyPage {
        title: study.spec.title.clone(),
        cites: paper.cites.clone(),
        text: study.page.clone(),
        summary: text::summary(ran).lines().map(str::to_owned).collect(),
        quick: ran.result.quick,
        findings: findings.collect(),
        exhibits: wanted
            .map(|((exhibit, judged), _)| exhibit_page(exhibit, judged))
            .collect(),
        machine,
        again: again(ran),
        words: ran
            .result
            .runs
            .iter()
            .map(|run| {
                let state = match run.state {
                    RunState::Done => format!("{:.0} s", run.took_s),
                    RunState::LeftOut => format!("left out: {}", run.reason),
                    RunState::Waiting | RunState::Interrupted => "stopped".to_owned(),
                };
                (
                    run.id.clone(),
                    format!("towpath {}", words::join(&run.words)),
                    state,
                )
            })
            .collect(),
    }
}

/// The words that run the whole again.
fn again(ran: &Ran) -> String {
    let ids = match ran.selection.only.is_empty() {
        true => String::new(),
        false => format!("/{}", ran.selection.only.join(",")),
    };
    let quick = if ran.result.quick { " --quick" } else { "" };
    let to = ran
        .result
        .to
        .as_ref()
        .map_or(String::new(), |host| format!(" --to {host}"));
    format!(
        "towpath study run {}{ids}{quick}{to}",
        ran.selection.study.key
    )
}

fn exhibit_page(exhibit: &ExhibitSpec, judged: &Judged) -> StudyExhibit {
    let mut notes = Vec::new();
    notes.extend(exhibit.unprinted.clone());
    notes.extend(
        judged
            .absent
            .as_ref()
            .map(|why| format!("Not run here: {why}.")),
    );
    let columns = judged.columns.iter().filter(|column| has_table(column));
    let columns: Vec<&Column> = columns.collect();
    // The reason of a whole exhibit is said once.
    let each = columns
        .iter()
        .filter(|column| judged.absent.is_none() || column.absent != judged.absent);
    for column in each {
        notes.push(format!("{}: {}.", column.name, text::column_text(column)));
    }
    let misprints = columns
        .iter()
        .flat_map(|column| &column.cells)
        .filter(|cell| cell.note.is_some());
    let misprints = misprints.count();
    if misprints > 0 {
        notes.push(format!(
            "* {misprints} printed figures contradict their own row."
        ));
    }
    StudyExhibit {
        shows: exhibit.shows.get_ref().clone(),
        title: exhibit.title.clone(),
        notes,
        head: head(exhibit, &columns),
        rows: rows(&columns),
        chart: exhibit.chart.as_ref().map(|chart| StudyChart {
            x: chart.x.clone(),
            y: chart.y.clone(),
            linear: chart.linear,
            curves: judged
                .columns
                .iter()
                .filter(|column| column.chart_scale != 0.0)
                .map(curve)
                .collect(),
        }),
    }
}

/// Columns with a printed figure are in the table; those of ours alone too, unless they are curves of
/// another exhibit's runs.
fn has_table(column: &Column) -> bool {
    column
        .cells
        .iter()
        .any(|cell| cell.paper.is_some() || cell.ours.is_some())
}

fn head(exhibit: &ExhibitSpec, columns: &[&Column]) -> Vec<String> {
    let row = exhibit
        .row
        .as_ref()
        .map_or("row", |row| row.measure.get_ref());
    let mut head = vec![row.replace('_', " ")];
    for column in columns {
        head.push(format!("{}, paper", column.name));
        head.push(format!("{}, ours", column.name));
    }
    head
}

/// Rows of all columns, by the value of the row.
fn rows(columns: &[&Column]) -> Vec<Vec<String>> {
    let mut places: Vec<f64> = Vec::new();
    for cell in columns.iter().flat_map(|column| &column.cells) {
        if !places
            .iter()
            .any(|place| (place - cell.row).abs() <= 1e-9 * place.abs())
        {
            places.push(cell.row);
        }
    }
    let row = |place: &f64| {
        let mut row = vec![text::figure(*place, 0).trim_end_matches(".00").to_owned()];
        for column in columns {
            let mut cells = column.cells.iter();
            let cell = cells.find(|cell| (place - cell.row).abs() <= 1e-9 * place.abs());
            let shown = |value: Option<f64>| {
                let digits = cell.map_or(0, |cell| cell.digits);
                value.map_or(String::new(), |value| text::figure(value, digits))
            };
            let star = match cell.map(|cell| cell.standing) {
                Some(Standing::Misprint) => " *",
                _ => "",
            };
            row.push(format!("{}{star}", shown(cell.and_then(|cell| cell.paper))));
            let beyond = match cell.map(|cell| cell.standing) {
                Some(Standing::Beyond) => " beyond",
                _ => "",
            };
            row.push(format!(
                "{}{beyond}",
                shown(cell.and_then(|cell| cell.ours))
            ));
        }
        row
    };
    places.iter().map(row).collect()
}

fn curve(column: &Column) -> StudyCurve {
    let points = |value: &dyn Fn(&study::judge::exhibit::Cell) -> Option<f64>| {
        let cells = column.cells.iter();
        let points = cells.filter_map(|cell| {
            // Where ours has no point the row itself is the place of the paper's.
            Some((
                cell.x.unwrap_or(cell.row),
                value(cell)? * column.chart_scale,
            ))
        });
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    StudyCurve {
        name: column.curve.clone(),
        ours: points(&|cell| cell.ours),
        theirs: points(&|cell| cell.paper),
    }
}
