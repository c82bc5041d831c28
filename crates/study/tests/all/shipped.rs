//! The studies that come with the program.

use study::form::shows;
use study::shipped;

#[test]
fn every_shipped_study_is_without_fault() {
    assert!(!shipped::keys().is_empty());
    for key in shipped::keys() {
        let study = shipped::study(key).expect(key).expect(key);
        assert!(
            study.page.contains("## Asked") && study.page.contains("## Found"),
            "{key}"
        );
    }
}

/// [`study::Study::parse`] refuses a paper's table or figure that is in no exhibit; here is what the
/// refusal rests on.
#[test]
fn every_exhibit_of_a_shipped_study_has_printed_figures_or_says_why_not() {
    for key in shipped::keys() {
        let study = shipped::study(key).expect(key).expect(key);
        for exhibit in &study.spec.exhibit {
            let numbers = shows::numbers(exhibit.shows.get_ref()).expect(key);
            assert!(!numbers.is_empty(), "{key}");
            let printed = exhibit.csv.is_some() || !exhibit.marks.is_empty();
            assert!(
                printed || exhibit.unprinted.is_some(),
                "{key}: {}",
                exhibit.title
            );
        }
    }
}

/// [`study::Study::parse`] refuses a printed column without a run or a reason; here it is seen in the
/// studies themselves.
#[test]
fn every_column_of_a_shipped_study_names_a_run_or_says_why_it_has_none() {
    for key in shipped::keys() {
        let study = shipped::study(key).expect(key).expect(key);
        for exhibit in &study.spec.exhibit {
            for column in &exhibit.column {
                let reason = column
                    .absent
                    .as_ref()
                    .map(|why| why.get_ref())
                    .or(exhibit.absent.as_ref());
                let has_run = column.run.is_some() || column.columns.is_some();
                assert!(has_run || reason.is_some(), "{key}: {}", column.name);
            }
            let printed = exhibit
                .csv
                .as_ref()
                .map(|name| &study.printed[name.get_ref()]);
            let columns = printed.map_or(0, |csv| csv.head.len() - 1);
            let named: std::collections::BTreeSet<&str> = exhibit
                .column
                .iter()
                .filter_map(|column| column.csv.as_ref())
                .chain(exhibit.unshown.keys())
                .map(|name| name.get_ref().as_str())
                .collect();
            let is_whole = exhibit.absent.is_some() || printed.is_none() || named.len() >= columns;
            assert!(is_whole, "{key}: {}", exhibit.title);
        }
    }
}
