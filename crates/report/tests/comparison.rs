//! Pages over several runs: comparisons, histories, the index of results; charts as files; what pages
//! forbid.

#[expect(dead_code, reason = "the other tests of reports use the rest")]
mod synthetic;

use synthetic::run;

#[test]
fn comparison_page_loads_and_sends_nothing() {
    let page = report::compare_html(&[], &[], "a", "b");
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
                  style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">";
    assert!(page.contains(policy), "{page}");
    assert!(!page.contains("<script"), "{page}");
}

#[test]
fn comparison_lists_regressions_first() {
    let run = run();
    let verdicts = run.summary.expect("a summary").verdicts;
    let alone: Vec<results::Cell> = run.trials[..7].iter().map(|t| t.cell.clone()).collect();
    let one_sided = report::OneSided {
        run: "before",
        cells: &alone[1..2],
    };
    let text = report::compare_text(&verdicts, &[one_sided]);
    assert!(text.starts_with('\u{25bc}'), "{text}");
    assert!(
        text.lines()
            .last()
            .expect("a sum")
            .contains("of 36 cells compared")
    );
    // Throughput and delay of one size are two lines.
    assert!(
        text.contains(" throughput at 64 B udp ") && text.contains(" delay at 64 B udp "),
        "{text}"
    );
    assert!(
        text.contains("- only in before: tcp-batched, throughput at 64 B\n"),
        "{text}"
    );
    let page = report::compare_html(&verdicts, &[one_sided], "before", "<b>after</b>");
    assert!(page.contains("&lt;b&gt;after") && !page.contains("<b>after"));
    assert!(!page.contains("<script"));
    assert!(page.contains("only in before: tcp-batched, throughput at 64 B"));
}

#[test]
fn comparison_as_markdown_leaves_equal_cells_out_and_escapes_names() {
    let run = run();
    let verdicts = run.summary.expect("a summary").verdicts;
    let text = report::compare_markdown(&verdicts, &[], "before", "<b>|after");
    assert!(
        text.starts_with("### &lt;b>\\|after against before\n"),
        "{text}"
    );
    assert!(text.contains("of 36 cells compared."), "{text}");
    let equal = verdicts
        .iter()
        .filter(|one| one.kind == results::VerdictKind::Equal)
        .count();
    let rows = text.lines().filter(|line| line.starts_with('|')).count();
    assert_eq!(rows, 2 + verdicts.len() - equal, "{text}");
    assert!(!text.contains("<script"), "{text}");
}

#[test]
fn charts_are_pictures_with_style_and_numbers_of_every_cell() {
    let charts = report::charts(&run());
    let rates = charts
        .iter()
        .find(|chart| {
            chart
                .csv
                .starts_with("curve,message size,messages received per second")
        })
        .expect("the chart of message rates");
    assert!(
        rates
            .svg
            .starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"")
    );
    assert_eq!(rates.svg.matches("<style>").count(), 1);
    let mut reader = csv::Reader::from_reader(rates.csv.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let wanted = [
        "curve",
        "message size",
        "messages received per second",
        "low",
        "high",
    ];
    assert_eq!(header, wanted.to_vec());
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    let tcp: Vec<&str> = rows
        .iter()
        .filter(|row| &row[0] == "tcp")
        .map(|row| &row[1])
        .collect();
    assert_eq!(
        tcp,
        ["64", "1024", "16384"],
        "sizes as they were, without the offset of marks"
    );
    assert!(
        charts
            .iter()
            .any(|chart| chart.name == "trials-in-the-order-they-ran")
    );
}

#[test]
fn history_shows_changes_of_machine_and_escapes_names() {
    let (runs, cells) = synthetic::history();
    let text = report::history_text(&runs, &cells);
    assert!(
        text.contains("changed: kernel release: 6.1.0 \u{2192} 6.8.0"),
        "{text}"
    );
    assert!(
        text.contains("throughput at 64 B, tcp: message rate"),
        "{text}"
    );
    assert!(text.trim_end().ends_with("over 3 runs"), "{text}");
    let page = report::history_html(&runs, &cells);
    assert!(page.contains("kernel release: 6.1.0") && page.contains("commit=1f3a"));
    assert!(
        page.contains("class=\"model c7"),
        "a dotted line where the kernel changed"
    );
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'"));
    assert_eq!(page.matches("<figure>").count(), 6, "a chart a contest");
}

#[test]
fn index_of_results_links_reports_and_says_what_is_missing() {
    let run = run();
    let mut killed = run.clone();
    killed.summary = None;
    let page = report::runs_html(&report::RunsPage {
        folder: "results".into(),
        runs: vec![
            report::ListedRun::of(&run, "a b", Some("a b/report.html")),
            report::ListedRun::of(&killed, "<b>", None),
        ],
        unread: vec!["c/plan.toml is damaged".into()],
        left_out: Vec::new(),
    });
    let page = page.replace("&#x2f;", "/");
    assert!(
        page.contains("<h1><span>2 runs in results</span>"),
        "{page}"
    );
    assert!(page.contains("href=\"./a%20b/report.html\""), "{page}");
    assert!(page.contains("&lt;b&gt;") && !page.contains("<script"));
    assert!(page.contains("running, or cut off") && page.contains("c/plan.toml is damaged"));
}
