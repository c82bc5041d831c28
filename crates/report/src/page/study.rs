//! The page of a study: what a paper asked and found, its tables and charts with ours, its findings;
//! and the index of several.

use super::charts::Figure;
use crate::chart::{Axis, Line, Mark, Plot, glyph};
use crate::quantity;
use serde::Serialize;

/// A study as a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyPage {
    /// The title.
    pub title: String,
    /// The paper.
    pub cites: String,
    /// What was asked, built and found: headings (`## `) and paragraphs.
    pub text: String,
    /// How many figures and exhibits there are.
    pub summary: Vec<String>,
    /// The short forms of the runs ran.
    pub quick: bool,
    /// The sentences of the paper.
    pub findings: Vec<StudyFinding>,
    /// Tables and charts.
    pub exhibits: Vec<StudyExhibit>,
    /// Facts about the machine.
    pub machine: Vec<(String, String)>,
    /// The command that runs it again.
    pub again: String,
    /// Name, command and end of each run.
    pub words: Vec<(String, String, String)>,
}

/// A sentence of the paper.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyFinding {
    /// The sentence.
    pub says: String,
    /// What became of it.
    pub word: String,
    /// What was found.
    pub found: String,
    /// It held.
    pub is_good: bool,
    /// It did not hold.
    pub is_bad: bool,
}

/// A table of a paper and the figures that plot it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyExhibit {
    /// `table 2, figures 8, 9`.
    pub shows: String,
    /// What it shows.
    pub title: String,
    /// Sentences about it.
    pub notes: Vec<String>,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Rows of the table.
    pub rows: Vec<Vec<String>>,
    /// Its chart.
    pub chart: Option<StudyChart>,
}

/// Curves of an exhibit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyChart {
    /// Title of the x axis, unit included.
    pub x: String,
    /// Title of the y axis, unit included.
    pub y: String,
    /// Both axes are linear from zero.
    pub linear: bool,
    /// The curves.
    pub curves: Vec<StudyCurve>,
}

/// A curve of ours and the paper's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyCurve {
    /// Its name.
    pub name: String,
    /// Our points, ascending in x.
    pub ours: Vec<(f64, f64)>,
    /// The paper's, drawn dashed with marks.
    pub theirs: Vec<(f64, f64)>,
}

/// Several studies as a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexPage {
    /// The title.
    pub title: String,
    /// Paragraphs below it.
    pub lead: Vec<String>,
    /// The studies, in the order of their years.
    pub studies: Vec<IndexStudy>,
}

/// A study in an index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexStudy {
    /// Its page, relative to the index.
    pub href: String,
    /// Its title.
    pub title: String,
    /// The paper.
    pub cites: String,
    /// Sentences about its runs.
    pub lines: Vec<String>,
    /// Sentence, word and what was found.
    pub findings: Vec<(String, String, String)>,
    /// What a message costs: exhibit, column, then, now.
    pub costs: Vec<[String; 4]>,
}

/// Longest text of a study that is shown as one.
const TEXT_MAX: usize = 600;

/// Most parts of a page: exhibits, rows, paragraphs.
const PARTS_MAX: usize = 1000;

#[derive(Serialize)]
struct Page {
    title: String,
    cites: String,
    quick: bool,
    summary: Vec<String>,
    text: Vec<Block>,
    findings: Vec<FindingRow>,
    exhibits: Vec<Exhibit>,
    machine: Vec<(String, String)>,
    again: String,
    words: Vec<(String, String, String)>,
    style: &'static str,
}

/// A paragraph or a heading.
#[derive(Serialize)]
struct Block {
    heading: bool,
    text: String,
}

#[derive(Serialize)]
struct FindingRow {
    says: String,
    word: String,
    found: String,
    class: &'static str,
}

#[derive(Serialize)]
struct Exhibit {
    shows: String,
    title: String,
    notes: Vec<String>,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    figure: Option<Figure>,
    legend: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Index {
    title: String,
    lead: Vec<String>,
    studies: Vec<IndexRow>,
    style: &'static str,
}

#[derive(Serialize)]
struct IndexRow {
    href: String,
    title: String,
    cites: String,
    lines: Vec<String>,
    findings: Vec<(String, String, String)>,
    costs: Vec<[String; 4]>,
}

fn clean(text: &str) -> String {
    quantity::clean(text, TEXT_MAX)
}

fn clean_all(texts: &[String]) -> Vec<String> {
    parts(texts, |text| clean(text))
}

/// Of each of `all`, of so many as a page has at most, what `of` makes of it.
fn parts<'a, T, U>(all: &'a [T], of: impl FnMut(&'a T) -> U) -> Vec<U> {
    all.iter().take(PARTS_MAX).map(of).collect()
}

/// A study as a complete HTML document without external resources and scripts.
pub fn study_html(study: &StudyPage) -> String {
    let finding = |finding: &StudyFinding| FindingRow {
        says: clean(&finding.says),
        word: clean(&finding.word),
        found: clean(&finding.found),
        class: match (finding.is_good, finding.is_bad) {
            (true, _) => "held",
            (_, true) => "refuted",
            _ => "open",
        },
    };
    let page = Page {
        title: clean(&study.title),
        cites: clean(&study.cites),
        quick: study.quick,
        summary: clean_all(&study.summary),
        text: blocks(&study.text),
        findings: parts(&study.findings, finding),
        exhibits: parts(&study.exhibits, exhibit),
        machine: parts(&study.machine, |(name, value)| {
            (quantity::spaced(name), clean(value))
        }),
        again: clean(&study.again),
        words: parts(&study.words, |(id, words, end)| {
            (clean(id), quantity::clean(words, 2000), clean(end))
        }),
        style: super::STYLE,
    };
    super::render("study.html", &page)
}

/// An index as a complete HTML document.
pub fn studies_html(index: &IndexPage) -> String {
    let row = |study: &IndexStudy| IndexRow {
        href: clean(&study.href),
        title: clean(&study.title),
        cites: clean(&study.cites),
        lines: clean_all(&study.lines),
        findings: parts(&study.findings, |(says, word, found)| {
            (clean(says), clean(word), clean(found))
        }),
        costs: parts(&study.costs, |row| row.each_ref().map(|text| clean(text))),
    };
    let page = Index {
        title: clean(&index.title),
        lead: clean_all(&index.lead),
        studies: parts(&index.studies, row),
        style: super::STYLE,
    };
    super::render("studies.html", &page)
}

/// Headings and paragraphs of a text; its own title is left out.
fn blocks(text: &str) -> Vec<Block> {
    let parts = text.split("\n\n").map(str::trim);
    let parts = parts.filter(|part| !part.is_empty() && !part.starts_with("# "));
    let block = |part: &str| {
        let (heading, text) = match part.strip_prefix("## ") {
            Some(text) => (true, text),
            None => (false, part),
        };
        Block {
            heading,
            text: quantity::clean(&text.replace('\n', " ").replace('`', ""), 4000),
        }
    };
    parts.take(PARTS_MAX).map(block).collect()
}

fn exhibit(exhibit: &StudyExhibit) -> Exhibit {
    let chart = exhibit.chart.as_ref();
    let legend = chart.into_iter().flat_map(|chart| {
        let curves = chart.curves.iter().enumerate();
        curves.map(|(place, curve)| (glyph(place), clean(&curve.name)))
    });
    Exhibit {
        shows: clean(&exhibit.shows),
        title: clean(&exhibit.title),
        notes: clean_all(&exhibit.notes),
        head: clean_all(&exhibit.head),
        rows: parts(&exhibit.rows, |row| clean_all(row)),
        figure: chart.map(|chart| Figure::new("", &plot(&exhibit.title, chart))),
        legend: legend.collect(),
    }
}

fn plot(title: &str, chart: &StudyChart) -> Plot {
    let all = || {
        let curves = chart.curves.iter();
        curves.flat_map(|curve| curve.ours.iter().chain(&curve.theirs))
    };
    let across: Vec<f64> = all().map(|point| point.0).collect();
    let up: Vec<f64> = all().map(|point| point.1).collect();
    let tick = |value: f64| quantity::si(value, "").trim().to_owned();
    let axis = |title: &str, values: &[f64]| match chart.linear {
        true => Axis::from_zero(&clean(title), values, tick),
        false => Axis::fitting(&clean(title), values, tick),
    };
    let mut plot = Plot::new(clean(title), axis(&chart.x, &across), axis(&chart.y, &up));
    for (place, curve) in chart.curves.iter().enumerate() {
        for (theirs, points) in [(false, &curve.ours), (true, &curve.theirs)] {
            plot.lines.push(Line {
                contestant: place,
                model: theirs,
                points: points.clone(),
            });
        }
        let marks = curve.theirs.iter().map(|&at| Mark {
            contestant: place,
            at,
            raw: false,
            hint: format!(
                "{}, the paper: {}, {}",
                clean(&curve.name),
                quantity::short(at.0),
                quantity::short(at.1)
            ),
        });
        plot.marks.extend(marks);
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> StudyPage {
        StudyPage {
            title: name.to_owned(),
            text: "# Title\n\n## Asked\n\nWhat does it\ncost?\n".to_owned(),
            exhibits: vec![StudyExhibit {
                shows: "table 1, figure 1".to_owned(),
                head: vec!["size".to_owned(), "paper".to_owned(), "ours".to_owned()],
                rows: vec![vec!["1".to_owned(), "5".to_owned(), "6".to_owned()]],
                chart: Some(StudyChart {
                    x: "size, B".to_owned(),
                    y: "rate, /s".to_owned(),
                    linear: true,
                    curves: vec![StudyCurve {
                        name: name.to_owned(),
                        ours: vec![(1.0, 2.0), (2.0, 3.0)],
                        theirs: vec![(1.0, 1.0), (2.0, f64::NAN)],
                    }],
                }),
                ..StudyExhibit::default()
            }],
            ..StudyPage::default()
        }
    }

    #[test]
    fn study_page_has_text_table_chart_and_legend() {
        let html = study_html(&page("UDP"));
        assert!(html.contains("<h2>Asked</h2>") && html.contains("What does it cost?"));
        assert!(
            html.contains("table 1, figure 1") && html.contains("<td>6</td>"),
            "{html}"
        );
        assert_eq!(html.matches("<svg class=\"chart\"").count(), 1);
        let marks = html.matches("class=\"mark c0").count();
        assert_eq!(
            marks, 2,
            "the paper's one point that is a number, and the legend"
        );
    }

    #[test]
    fn study_names_are_escaped() {
        let html = study_html(&page("<script>alert(1)</script>"));
        assert!(!html.contains("<script>"), "{html}");
        let index = studies_html(&IndexPage {
            title: "<script>".to_owned(),
            studies: vec![IndexStudy {
                href: "\"><script>".to_owned(),
                ..IndexStudy::default()
            }],
            ..IndexPage::default()
        });
        assert!(!index.contains("<script>"), "{index}");
    }
}
