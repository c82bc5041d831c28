//! Printed columns: none without a run or a reason.

use super::check::Fault;
use super::csv::Csv;
use super::spec::ExhibitSpec;
use toml::Spanned;

/// Every name of a printed column is one, and every printed column is of the rows, is a column of the
/// exhibit, or is unshown with a reason. A whole exhibit that is absent has its reason for all of them.
pub(super) fn check(exhibit: &ExhibitSpec, csv: Option<&Csv>) -> Result<(), Fault> {
    let heads: Vec<&str> = match csv {
        Some(csv) => csv.head.iter().map(String::as_str).collect(),
        None => exhibit
            .marks
            .iter()
            .map(|mark| mark.column.get_ref().as_str())
            .collect(),
    };
    let rows = exhibit.row.iter().filter_map(|row| row.csv.as_ref());
    let shown = exhibit
        .column
        .iter()
        .filter_map(|column| column.csv.as_ref());
    let misprints = exhibit.misprint.iter().map(|misprint| &misprint.column);
    let unshown = exhibit.unshown.keys();
    for name in rows.chain(shown).chain(misprints).chain(unshown) {
        if !heads.contains(&name.get_ref().as_str()) {
            let what = format!(
                "no column {:?}; use one of {}",
                name.get_ref(),
                heads.join(", ")
            );
            return Err((name.span(), what));
        }
    }
    check_unshown(exhibit)?;
    match exhibit.absent.is_some() && exhibit.column.is_empty() {
        true => Ok(()),
        false => check_each(exhibit, csv),
    }
}

fn check_unshown(exhibit: &ExhibitSpec) -> Result<(), Fault> {
    for (name, why) in &exhibit.unshown {
        if why.trim().is_empty() {
            let what = format!("{:?} is unshown; say why", name.get_ref());
            return Err((name.span(), what));
        }
        if is_shown(exhibit, name.get_ref()) {
            let what = format!("{:?} is shown; leave it out of unshown", name.get_ref());
            return Err((name.span(), what));
        }
    }
    Ok(())
}

fn is_shown(exhibit: &ExhibitSpec, name: &str) -> bool {
    let mut shown = exhibit
        .column
        .iter()
        .filter_map(|column| column.csv.as_ref());
    shown.any(|own| own.get_ref() == name)
}

fn check_each(exhibit: &ExhibitSpec, csv: Option<&Csv>) -> Result<(), Fault> {
    let has_place = |name: &str| {
        let mut unshown = exhibit.unshown.keys();
        is_shown(exhibit, name) || unshown.any(|own| own.get_ref() == name)
    };
    let fault = |at: &Spanned<String>, name: &str| {
        let what = format!(
            "column {name:?} names no run; give it an [[exhibit.column]] with run, or absent = why"
        );
        Err((at.span(), what))
    };
    let Some(csv) = csv else {
        let mut marks = exhibit.marks.iter().map(|mark| &mark.column);
        return match marks.find(|name| !has_place(name.get_ref())) {
            Some(name) => fault(name, name.get_ref()),
            None => Ok(()),
        };
    };
    let row = exhibit.row.as_ref().and_then(|row| row.csv.as_ref());
    let row = match row {
        Some(name) => Some(name.get_ref()),
        None => csv.head.first(),
    };
    let mut printed = csv.head.iter().filter(|name| Some(*name) != row);
    match (printed.find(|name| !has_place(name)), &exhibit.csv) {
        (Some(name), Some(file)) => fault(file, name),
        _ => Ok(()),
    }
}
