//! Faults of a study's files.

use crate::support::{CSV, TEXT, files, outcomes, parse};
use study::Study;

#[test]
fn study_of_toml_csv_and_page_is_read() {
    let study = parse(TEXT).expect("a study");
    assert_eq!(study.spec.run[0].id.get_ref(), "both");
    assert_eq!(study.printed["table-1.csv"].rows.len(), 3);
    let words = study::folder::command(&study.spec.run[0], true);
    assert_eq!(words[..3], ["race", "tcp", "udp"]);
    assert_eq!(words.last().map(String::as_str), Some("3"));
}

/// What is replaced in a study without fault, by what, and what is said then.
const FAULTS: [(&str, &str, &str); 20] = [
    (
        "race = \"tcp",
        "rase = \"tcp",
        "small/study.toml:15:1: unknown field",
    ),
    (
        "run = \"both\"",
        "run = \"bot\"",
        ":29:7: no run \"bot\"; use one of both",
    ),
    (
        "csv = \"udp\"",
        "csv = \"quic\"",
        "no column \"quic\"; use one of size, tcp, udp",
    ),
    (
        "figures = 2",
        "figures = 3",
        ":4:1: figure 3 is in no exhibit; add one",
    ),
    ("table 1, figure 1", "table 2", "the paper has no table 2"),
    ("table 1, figure 1", "table one", "names no table or figure"),
    ("messages_per_s / 10", "messages_per_s /", "it ends early"),
    ("judged = \"10 %\"", "judged = \"ten\"", "is no limit; use"),
    (
        "id = \"both\"",
        "id = \"../both\"",
        "is no name of a folder",
    ),
    ("at_least = 1.5", "at_least = -1", "a ratio is more than 0"),
    ("at_least = 1.5", "at_mots = 1.5", "unknown field"),
    (
        "race = \"tcp udp",
        "race = \"tcp 'udp",
        "a quote is not closed",
    ),
    (
        "csv = \"udp\"\nrun",
        "run",
        ":21:7: column \"udp\" names no run; give it an [[exhibit.column]]",
    ),
    (
        "judged = \"10 %\"",
        "unshown = { udp = \"it repeats tcp\" }",
        "\"udp\" is shown; leave it out of unshown",
    ),
    (
        "judged = \"10 %\"",
        "unshown = { quic = \"it repeats tcp\" }",
        ":23:13: no column \"quic\"",
    ),
    (
        "run = \"both\"\ncontestant = \"udp\"\nmeasure = \"rate\"",
        "absent = \" \"",
        "it says nothing; say why it is not run",
    ),
    (
        "run = \"both\"\ncontestant = \"udp\"",
        "absent = \"no UDP\"",
        "a column that is run is not absent; leave one",
    ),
    (
        "run = \"both\"\ncontestant = \"udp\"\nmeasure = \"rate\"",
        "unit = \"/s\"",
        "needs run and measure, or columns, or absent",
    ),
    (
        "title = \"Rates by size\"",
        "title = \"Rates by size\"\nabsent = \"\"",
        "absent says nothing; say why it is not run",
    ),
    (
        "quick = ",
        "sim = \"x.toml\"\nquick = ",
        "it needs one command",
    ),
];

#[test]
fn fault_is_one_line_with_place_and_remedy() {
    for (from, to, expected) in FAULTS {
        assert!(TEXT.contains(from), "{from}");
        let fault = parse(&TEXT.replacen(from, to, 1)).expect_err(to);
        assert!(fault.contains(expected), "{to}: {fault}");
        assert!(fault.contains(';'), "it names no remedy: {fault}");
        assert_eq!(fault.lines().count(), 1, "{fault}");
        assert!(fault.starts_with("small/study.toml:"), "{fault}");
    }
}

#[test]
fn printed_column_that_repeats_another_or_is_not_run_needs_no_run() {
    let misprint =
        "misprint = [{ row = 1024, column = \"udp\", because = \"it is below its neighbours\" }]";
    let own = "csv = \"udp\"\nrun = \"both\"\ncontestant = \"udp\"\nmeasure = \"rate\"";
    let unshown = TEXT.replace(misprint, "unshown = { udp = \"it repeats tcp\" }");
    let unshown = unshown.replace("csv = \"udp\"\n", "");
    parse(&unshown).expect("a reason");
    let study = parse(&TEXT.replace(own, "csv = \"udp\"\nabsent = \"no UDP\"")).expect("a study");
    let exhibit = &study.spec.exhibit[0];
    let judged = study::judge::exhibit::judge(&study, exhibit, &outcomes(3, |_, _, _| 1000.0));
    // The printed figures keep their place beside the reason; the exhibit is run.
    assert_eq!(judged.absent, None);
    let udp = &judged.columns[1];
    assert_eq!(udp.absent.as_deref(), Some("no UDP"));
    let printed: Vec<Option<f64>> = udp.cells.iter().map(|cell| cell.paper).collect();
    assert_eq!(printed, [Some(200.0), Some(95.5), None]);
    assert!(udp.cells.iter().all(|cell| cell.ours.is_none()));
}

#[test]
fn absent_exhibit_without_columns_shows_its_printed_figures() {
    let start = TEXT.find("[[exhibit.column]]").expect("columns");
    let text = TEXT[..start].replace("misprint", "absent = \"no tracer\"\nmisprint");
    let study = parse(&text).expect("a study");
    let judged = study::judge::exhibit::judge(&study, &study.spec.exhibit[0], &[].into());
    assert_eq!(judged.absent.as_deref(), Some("no tracer"));
    let names: Vec<&str> = judged.columns.iter().map(|own| own.name.as_str()).collect();
    assert_eq!(names, ["tcp", "udp"]);
    assert_eq!(judged.columns[0].cells[2].paper, Some(50.0));
}

#[test]
fn table_shown_twice_is_refused() {
    let again =
        "\n[[exhibit]]\nshows = \"table 1\"\ntitle = \"x\"\nunprinted = \"y\"\nabsent = \"z\"\n";
    let fault = parse(&format!("{TEXT}{again}")).expect_err("twice");
    assert!(fault.contains("table 1 is in two exhibits"), "{fault}");
}

#[test]
fn fault_of_a_csv_names_its_file_and_line() {
    let mut files = files(TEXT);
    files.insert("table-1.csv".to_owned(), CSV.replace("95.5", "95,5"));
    let fault = Study::parse("small", "small", files)
        .expect_err("four cells")
        .to_string();
    assert!(
        fault.starts_with("small/table-1.csv:3:1: 4 cells"),
        "{fault}"
    );
}

#[test]
fn folder_without_study_is_refused() {
    let fault = Study::read(std::path::Path::new("/nowhere")).expect_err("no folder");
    assert!(fault.to_string().contains("/nowhere/study.toml"), "{fault}");
}
