//! What one key alone does not tell: names that mean something, each table and figure once.

use super::Study;
use super::columns;
use super::formula::Formula;
use super::shows::{self, Kind, Number};
use super::spec::{ColumnSpec, ExhibitSpec, FigureSpec, FindingSpec, RunSpec};
use super::words;
use crate::judge::Limit;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;

/// A place in `study.toml`, and what is wrong there.
pub(super) type Fault = (Range<usize>, String);

/// Most runs of a study.
const RUNS_MAX: usize = 256;

/// Most exhibits and findings of a study.
const EXHIBITS_MAX: usize = 512;

pub(super) fn check(study: &Study) -> Result<(), Fault> {
    let spec = &study.spec;
    let whole = || spec.paper.span();
    let many = [spec.run.len() > RUNS_MAX, spec.exhibit.len() > EXHIBITS_MAX];
    if many.contains(&true) || spec.finding.len() > EXHIBITS_MAX {
        let what = format!("more than {RUNS_MAX} runs or {EXHIBITS_MAX} exhibits; split the study");
        return Err((whole(), what));
    }
    for formula in spec.measure.values() {
        parse_formula(formula)?;
    }
    let mut ids = BTreeSet::new();
    for run in &spec.run {
        check_run(run)?;
        if !ids.insert(run.id.get_ref()) {
            let what = format!("run {:?} is there twice; rename one", run.id.get_ref());
            return Err((run.id.span(), what));
        }
    }
    for exhibit in &spec.exhibit {
        check_exhibit(study, exhibit)?;
    }
    for finding in &spec.finding {
        check_finding(study, finding)?;
    }
    check_numbers(study)
}

fn check_run(run: &RunSpec) -> Result<(), Fault> {
    let id = run.id.get_ref();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if id.is_empty() || id.len() > 60 || id.starts_with('.') || !id.chars().all(is_plain) {
        let what = format!("{id:?} is no name of a folder; use letters, digits and - _ .");
        return Err((run.id.span(), what));
    }
    let given = [&run.race, &run.sim, &run.profile, &run.cells, &run.channel];
    let mut given = given.into_iter().flatten();
    let (Some(command), None) = (given.next(), given.next()) else {
        let what = "it needs one command; give race, sim, profile, cells or channel".to_owned();
        return Err((run.id.span(), what));
    };
    if !(run.takes_s > 0.0 && run.takes_s < 1e6) {
        let what = format!("takes_s is {}; give seconds, more than 0", run.takes_s);
        return Err((run.id.span(), what));
    }
    for text in [Some(command), run.quick.as_ref()].into_iter().flatten() {
        words::split(text.get_ref()).map_err(|what| (text.span(), what))?;
    }
    Ok(())
}

fn parse_formula(text: &Spanned<String>) -> Result<Formula, Fault> {
    Formula::parse(text.get_ref()).map_err(|what| (text.span(), what))
}

fn check_limit(judged: &Spanned<String>) -> Result<(), Fault> {
    Limit::parse(judged.get_ref())
        .map(|_| ())
        .map_err(|what| (judged.span(), what))
}

fn check_exhibit(study: &Study, exhibit: &ExhibitSpec) -> Result<(), Fault> {
    let here = exhibit.shows.span();
    let csv = match &exhibit.csv {
        None => None,
        Some(name) => Some(study.printed.get(name.get_ref()).ok_or_else(|| {
            let what = format!(
                "no file {:?} in the study; name one of its CSV files",
                name.get_ref()
            );
            (name.span(), what)
        })?),
    };
    let printed = csv.is_some() || !exhibit.marks.is_empty();
    if printed == exhibit.unprinted.is_some() {
        let what = "give its printed figures (csv or marks), or say why there are none (unprinted)";
        return Err((here, what.to_owned()));
    }
    if exhibit.absent.is_none() && exhibit.column.is_empty() {
        let what = "it has no columns; give some, or say why it is not run (absent)".to_owned();
        return Err((here, what));
    }
    if !exhibit.column.is_empty() && exhibit.row.is_none() {
        let what = "its rows have no measure; give row = { measure = \"size\" }".to_owned();
        return Err((here, what));
    }
    if exhibit
        .absent
        .as_ref()
        .is_some_and(|why| why.trim().is_empty())
    {
        return Err((
            here,
            "absent says nothing; say why it is not run".to_owned(),
        ));
    }
    exhibit.judged.as_ref().map_or(Ok(()), check_limit)?;
    exhibit
        .x
        .as_ref()
        .map_or(Ok(()), |x| parse_formula(x).map(|_| ()))?;
    if let Some(row) = &exhibit.row {
        parse_formula(&row.measure)?;
    }
    columns::check(exhibit, csv)?;
    let mut columns = exhibit.column.iter();
    columns.try_for_each(|column| check_column(study, exhibit, column))
}

fn check_column(study: &Study, exhibit: &ExhibitSpec, column: &ColumnSpec) -> Result<(), Fault> {
    let here = exhibit.shows.span();
    column.judged.as_ref().map_or(Ok(()), check_limit)?;
    if let Some(closer) = &column.closer {
        check_limit(&closer.judged)?;
    }
    if let Some(why) = &column.absent {
        let alone = column.run.is_none() && column.measure.is_none() && column.columns.is_none();
        return match (alone, why.get_ref().trim().is_empty()) {
            (true, false) => Ok(()),
            (true, true) => Err((why.span(), "it says nothing; say why it is not run".into())),
            (false, _) => {
                let what = "a column that is run is not absent; leave one of the two out";
                Err((why.span(), what.to_owned()))
            }
        };
    }
    match (&column.run, &column.measure, &column.columns) {
        (Some(run), Some(measure), None) => {
            check_run_name(study, run)?;
            parse_formula(measure).map(|_| ())
        }
        (None, None, Some(formula)) => {
            let names = exhibit.column.iter().filter_map(|other| other.csv.as_ref());
            let names: Vec<&str> = names.map(|name| name.get_ref().as_str()).collect();
            let formula_names = parse_formula(formula)?;
            let unknown = formula_names
                .names()
                .into_iter()
                .find(|name| !names.contains(name));
            match unknown {
                None => Ok(()),
                Some(name) => {
                    let what = format!(
                        "no column has csv = {name:?}; use one of {}",
                        names.join(", ")
                    );
                    Err((formula.span(), what))
                }
            }
        }
        _ => {
            let what = format!(
                "column {:?} needs run and measure, or columns, or absent; give one of the three",
                column.name
            );
            Err((here, what))
        }
    }
}

fn check_run_name(study: &Study, run: &Spanned<String>) -> Result<(), Fault> {
    if study.run(run.get_ref()).is_some() {
        return Ok(());
    }
    let ids = study.spec.run.iter().map(|run| run.id.get_ref().as_str());
    let ids: Vec<&str> = ids.take(20).collect();
    let what = format!("no run {:?}; use one of {}", run.get_ref(), ids.join(", "));
    Err((run.span(), what))
}

fn check_finding(study: &Study, finding: &FindingSpec) -> Result<(), Fault> {
    let mut figures: Vec<&FigureSpec> = Vec::new();
    let mut checks = 0;
    if let Some(check) = &finding.ratio {
        checks += 1;
        figures.extend([&check.of, &check.to]);
        let ratio = match (&check.at_least, &check.at_most) {
            (Some(ratio), None) | (None, Some(ratio)) => ratio,
            _ => {
                return Err((
                    finding.says.span(),
                    "give at_least or at_most, one of them".to_owned(),
                ));
            }
        };
        if !(ratio.get_ref().is_finite() && *ratio.get_ref() > 0.0) {
            return Err((ratio.span(), "a ratio is more than 0; give one".to_owned()));
        }
    }
    if let Some(check) = &finding.order {
        checks += 1;
        figures.extend(check.falling.get_ref());
        if check.falling.get_ref().len() < 2 {
            return Err((
                check.falling.span(),
                "an order needs two figures or more".to_owned(),
            ));
        }
    }
    if let Some(check) = &finding.crossover {
        checks += 1;
        figures.extend([&check.of, &check.to]);
        parse_formula(&check.x)?;
    }
    if let Some(check) = &finding.highest {
        checks += 1;
        figures.push(&check.of);
        parse_formula(&check.x)?;
    }
    if let Some(check) = &finding.linear {
        checks += 1;
        figures.push(&check.of);
        parse_formula(&check.x)?;
        check_limit(&check.within)?;
    }
    if let Some(check) = &finding.period {
        checks += 1;
        figures.push(&check.of);
        parse_formula(&check.x)?;
        check_limit(&check.within)?;
        if !(check.is.get_ref().is_finite() && *check.is.get_ref() > 0.0) {
            return Err((
                check.is.span(),
                "a period is more than 0; give one".to_owned(),
            ));
        }
    }
    if checks + usize::from(finding.absent.is_some()) != 1 {
        let what =
            "it needs one check: ratio, order, crossover, highest, linear or period; or absent";
        return Err((finding.says.span(), what.to_owned()));
    }
    for figure in figures {
        check_run_name(study, &figure.run)?;
        parse_formula(&figure.measure)?;
    }
    Ok(())
}

/// Each table and figure of the paper is in exactly one exhibit, or in the text of the page.
fn check_numbers(study: &Study) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    let paper = study.spec.paper.get_ref();
    let count = |kind: Kind| match kind {
        Kind::Table => paper.tables,
        Kind::Figure => paper.figures,
        Kind::Appendix | Kind::Extension => shows::NUMBER_MAX,
    };
    for exhibit in &study.spec.exhibit {
        let at = |what: String| (exhibit.shows.span(), what);
        for number in shows::numbers(exhibit.shows.get_ref()).map_err(at)? {
            if number.number > count(number.kind) {
                return Err(at(format!(
                    "the paper has no {number}; see its counts in [paper]"
                )));
            }
            if !seen.insert(number) {
                return Err(at(format!("{number} is in two exhibits; show it in one")));
            }
        }
    }
    let page = study.page.to_lowercase();
    for (kind, last) in [(Kind::Table, paper.tables), (Kind::Figure, paper.figures)] {
        if last > shows::NUMBER_MAX {
            let what = format!("no paper has {last}; at most {}", shows::NUMBER_MAX);
            return Err((study.spec.paper.span(), what));
        }
        let missing = (1..=last)
            .map(|number| Number { kind, number })
            .find(|number| !seen.contains(number) && !mentions(&page, &number.to_string()));
        if let Some(number) = missing {
            let what = format!("{number} is in no exhibit; add one, or name it in page.md");
            return Err((study.spec.paper.span(), what));
        }
    }
    Ok(())
}

/// Whether the text names it: `table 1` is not in `table 12`.
fn mentions(text: &str, name: &str) -> bool {
    let mut found = text.match_indices(name);
    found.any(|(at, _)| !text[at + name.len()..].starts_with(|c: char| c.is_ascii_digit()))
}
