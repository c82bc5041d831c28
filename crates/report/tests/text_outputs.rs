//! The terminal's table, the CSV export and the comparison.

mod synthetic;

use synthetic::run;

#[test]
fn table_per_workload_then_verdicts() {
    let text = report::table(&run(), false, 100);
    let place = |what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("no {what} in\n{text}"))
    };
    assert!(place("throughput: messages received") < place("delay: round trip"));
    assert!(place("delay: round trip") < place("Highest message rate: bare"));
    let tcp = text
        .lines()
        .find(|line| line.trim_start().starts_with("tcp "))
        .expect("tcp's row");
    assert_eq!(tcp.matches("/s").count(), 3, "{tcp}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn no_line_exceeds_terminal_width() {
    for width in [60, 80, 120] {
        for colour in [false, true] {
            for line in report::table(&run(), colour, width).lines() {
                let plain = without_codes(line);
                assert!(
                    plain.chars().count() <= width,
                    "{} > {width}: {plain}",
                    plain.len()
                );
            }
        }
    }
}

#[test]
fn long_label_is_folded_between_options() {
    let label = "tcp,buffers=4194304,congestion=bbr,nodelay=on";
    let mut run = run();
    let rename = |cell: &mut results::Cell| {
        if cell.transport() == "tcp" {
            *cell = cell.clone().with(results::Cell::TRANSPORT, label);
        }
    };
    let names = run.plan.transports.iter_mut();
    names
        .filter(|name| *name == "tcp")
        .for_each(|name| *name = label.into());
    run.trials
        .iter_mut()
        .for_each(|trial| rename(&mut trial.cell));
    run.summary = None;
    for width in [60, 80] {
        let text = report::table(&run, false, width);
        assert!(
            text.lines().all(|line| line.chars().count() <= width),
            "{text}"
        );
        let place = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("no {part} in {text}"))
        };
        assert!(
            place("tcp,buffers=4194304,") < place("\n  congestion=bbr,"),
            "{text}"
        );
        assert!(place("congestion=bbr,") < place("\n  nodelay=on"), "{text}");
    }
}

#[test]
fn loss_stands_beside_its_rate() {
    let mut run = run();
    for cell in &mut run.summary.as_mut().expect("a summary").cells {
        if cell.cell.transport() == "udp" && cell.cell.workload() == "throughput" {
            let mut loss = cell.metrics[results::metric::MESSAGES_PER_S];
            (loss.median, loss.low, loss.high) = (0.123, 0.1, 0.2);
            cell.metrics.insert("loss_fraction".into(), loss);
        }
    }
    let text = report::table(&run, false, 120);
    let line = text.lines().find(|line| line.contains("12.3 % lost"));
    assert_eq!(
        line.map(|line| line.matches("12.3 % lost").count()),
        Some(3),
        "{text}"
    );
    let page = report::html(&run);
    assert_eq!(
        page.matches("<small class=\"loss\">12.3 % lost</small>")
            .count(),
        3
    );
}

#[test]
fn every_sentence_counts_the_same_trials() {
    let mut run = run();
    for trial in &mut run.trials {
        trial.disturbed = vec!["steal 4 % of the span".into()];
    }
    let mut pilots: Vec<results::Trial> = run.trials[..14].to_vec();
    pilots.iter_mut().for_each(|trial| trial.block = 0);
    run.trials.splice(0..0, pilots);
    run.summary = Some(stats::summarise(
        &run.plan,
        &run.trials,
        results::RunStatus::Complete,
        "",
        1.0,
    ));
    let text = report::table(&run, false, 1000);
    // 7 contestants, 6 cells, 5 blocks; two of the trials are not valid.
    assert!(
        text.contains("Of 210 trials 2 excluded, 208 disturbed"),
        "{text}"
    );
    assert!(text.contains("208 of 208 trials were disturbed"), "{text}");
    let page = report::html(&run);
    assert!(page.contains("208 of 210 trials are valid. Before them 14 pilots"));
    assert!(page.contains(", 210 trials, "));
}

#[test]
fn offered_load_is_one_row_per_transport() {
    let text = report::table(&synthetic::offered(), false, 80);
    assert_eq!(
        text.lines()
            .filter(|line| line.trim_start().starts_with("udp "))
            .count(),
        1
    );
    assert!(text.contains("No verdict"), "{text}");
}

#[test]
fn loads_in_percent_show_the_verdict_on_the_peak_and_no_other_ratio() {
    let mut run = synthetic::offered();
    let ratios = |run: &results::RunData| {
        let text = report::table(run, false, 100);
        let words = text.split_whitespace();
        words
            .filter(|word| {
                word.strip_suffix('x')
                    .is_some_and(|n| n.parse::<f64>().is_ok())
            })
            .count()
    };
    // Shares of different capacities: medians of the two have no ratio.
    assert_eq!(ratios(&run), 0);
    run.summary = Some(stats::summarise(
        &run.plan,
        &run.trials,
        results::RunStatus::Complete,
        "",
        1.0,
    ));
    let text = report::table(&run, false, 100);
    let udp = text
        .lines()
        .find(|line| line.trim_start().starts_with("udp "));
    assert!(udp.is_some_and(|row| row.contains("0.755x")), "{text}");
    assert!(text.contains("Highest peak message rate: bare"), "{text}");
    assert!(!text.contains("load percent"), "{text}");
}

#[test]
fn colour_changes_only_escape_codes() {
    let coloured = report::table(&run(), true, 100);
    assert!(coloured.contains("\u{1b}[32m"));
    let plain: String = coloured
        .lines()
        .map(|line| without_codes(line) + "\n")
        .collect();
    assert_eq!(plain, report::table(&run(), false, 100));
}

#[test]
fn every_trial_is_csv_row_of_equal_length() {
    let run = run();
    let text = report::csv(&run);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().expect("a header").clone();
    let column = |name: &str| names.iter().position(|n| n == name).expect(name);
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), run.trials.len());
    assert_eq!(&rows[9][column("status")], "invalid");
    assert_eq!(
        &rows[23][column("metric.messages_per_s")],
        "",
        "NaN is no number"
    );
    let rate: f64 = rows[0][column("metric.messages_per_s")]
        .parse()
        .expect("a number");
    assert_eq!(rate, run.trials[0].metrics["messages_per_s"]);
    assert_eq!(&rows[6][column("factor.transport")], synthetic::HOSTILE);
}

#[test]
fn csv_formulas_are_quoted() {
    let mut run = run();
    run.trials[0].reason = "=HYPERLINK(\"x\")".into();
    assert!(report::csv(&run).contains("\"'=HYPERLINK"));
}

#[test]
fn comparison_lists_regressions_first() {
    let run = run();
    let verdicts = run.summary.expect("a summary").verdicts;
    let text = report::compare_text(&verdicts);
    assert!(text.starts_with('\u{25bc}'), "{text}");
    assert!(
        text.lines()
            .last()
            .expect("a sum")
            .contains("of 36 cells compared")
    );
    let page = report::compare_html(&verdicts, "before", "<b>after</b>");
    assert!(page.contains("&lt;b&gt;after") && !page.contains("<b>after"));
    assert!(!page.contains("<script"));
}

fn without_codes(line: &str) -> String {
    let mut plain = String::new();
    let mut inside = false;
    for character in line.chars() {
        match character {
            '\u{1b}' => inside = true,
            'm' if inside => inside = false,
            other if !inside => plain.push(other),
            _ => {}
        }
    }
    plain
}
