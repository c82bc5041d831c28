//! The terminal's table, the CSV export and the comparison.

mod synthetic;

use synthetic::run;
use synthetic::setting::resummarise;

/// What a run has been changed to is its summary too.
fn summarise(run: &mut results::RunData) {
    run.summary = Some(stats::summarise(
        &run.plan,
        &run.trials,
        results::RunStatus::Complete,
        "",
        1.0,
    ));
}

#[test]
fn table_per_workload_then_verdicts() {
    let text = report::table(&run(), false, 100, &[]);
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
            for line in report::table(&run(), colour, width, &[]).lines() {
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
        let text = report::table(&run, false, width, &[]);
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
    let text = report::table(&run, false, 120, &[]);
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
    summarise(&mut run);
    let text = report::table(&run, false, 1000, &[]);
    // 7 contestants, 6 cells, 5 blocks; two of the trials are not valid.
    assert!(
        text.contains("210 trials, of which 2 excluded, 208 disturbed"),
        "{text}"
    );
    assert!(text.contains("208 of 208 trials were disturbed"), "{text}");
    let page = report::html(&run);
    assert!(page.contains("208 of 210 trials are valid. Before them 14 pilots"));
    assert!(page.contains(", 210 trials, "));
}

#[test]
fn contestant_without_result_keeps_row_and_reason() {
    let mut run = run();
    let is_udp = |trial: &results::Trial| trial.cell.transport() == "udp";
    let is_delay = |trial: &results::Trial| trial.cell.workload() == "delay";
    let mut pilots: Vec<results::Trial> = run
        .trials
        .iter()
        .filter(|t| t.block == 1)
        .cloned()
        .collect();
    pilots.retain(|trial| is_udp(trial) && is_delay(trial));
    for pilot in &mut pilots {
        (pilot.block, pilot.status) = (0, results::Status::Failed);
        pilot.reason = "the peer is gone".into();
    }
    run.trials
        .retain(|trial| !(is_udp(trial) && is_delay(trial)));
    run.trials.splice(0..0, pilots);
    run.plan.options.insert(
        "unavailable.raw-ether".into(),
        "needs root; run as root".into(),
    );
    summarise(&mut run);
    let text = report::table(&run, false, 100, &[]);
    let rows = text
        .lines()
        .filter(|line| line.trim_start().starts_with("udp "));
    // A row each in throughput and delay, and the reason once.
    let reason = "udp has no result: its pilot failed: the peer is gone";
    assert_eq!(
        rows.filter(|row| !row.contains("has no result")).count(),
        2,
        "{text}"
    );
    assert_eq!(text.matches(reason).count(), 1, "{text}");
    assert!(
        text.contains("raw-ether did not race: needs root"),
        "{text}"
    );
    let page = report::html(&run);
    assert_eq!(
        page.matches("no result: its pilot failed: the peer is gone")
            .count(),
        3
    );
    assert!(page.contains("udp <small>no result</small></li>"));
}

#[test]
fn folder_that_is_cut_off_says_so() {
    let mut run = run();
    assert_eq!(run.missing_trials(), None);
    run.trials.truncate(20);
    let text = report::table(&run, false, 300, &[]);
    assert!(
        text.contains("trials.jsonl is cut off: it has 20 of the 210 trials"),
        "{text}"
    );
    assert!(report::html(&run).contains("trials.jsonl is cut off"));
}

#[test]
fn offered_load_is_one_row_per_transport() {
    let text = report::table(&synthetic::offered(), false, 200, &[]);
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
        let text = report::table(run, false, 100, &[]);
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
    summarise(&mut run);
    let text = report::table(&run, false, 100, &[]);
    let udp = text
        .lines()
        .find(|line| line.trim_start().starts_with("udp "));
    assert!(udp.is_some_and(|row| row.contains("0.755x")), "{text}");
    assert!(text.contains("Highest peak message rate: bare"), "{text}");
    assert!(!text.contains("load percent"), "{text}");
}

/// The run with every trial repeated at some loads of the link, in an order of their own, over one
/// link.
fn under_load() -> results::RunData {
    let mut run = run();
    let mut trials = Vec::new();
    for load in [3u64, 0, 10, 1] {
        for trial in &run.trials {
            let mut trial = trial.clone();
            trial.cell = trial
                .cell
                .with("link_load", load)
                .with("link", "rate=10mbit");
            for value in trial.metrics.values_mut() {
                *value /= 1.0 + load as f64;
            }
            trials.push(trial);
        }
    }
    run.trials = trials;
    resummarise(&mut run);
    run
}

#[test]
fn load_sweep_is_a_matrix_with_a_curve() {
    let text = report::table(&under_load(), false, 200, &[]);
    let heading = "throughput at 64 B: messages received by load on the link";
    let at = text
        .find(heading)
        .unwrap_or_else(|| panic!("no matrix in\n{text}"));
    let lines: Vec<&str> = text[at..].lines().collect();
    let loads: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(loads, ["0", "1", "3", "10"]);
    let tcp = lines
        .iter()
        .find(|line| line.trim_start().starts_with("tcp "));
    let tcp = tcp.expect("tcp's row");
    assert_eq!(tcp.matches("/s").count(), 4, "{tcp}");
    let curve: String = tcp
        .chars()
        .filter(|c| ('\u{2581}'..='\u{2588}').contains(c))
        .collect();
    assert_eq!(curve.chars().count(), 4, "{tcp}");
    // The matrices replace the tables of single loads, and come before the verdicts.
    assert_eq!(
        text.matches("messages received by load").count(),
        3,
        "{text}"
    );
    assert!(!text.contains("more is better"), "{text}");
    let page = report::html(&under_load());
    let place = |what: &str| page.find(what).unwrap_or_else(|| panic!("no {what}"));
    assert!(place("id=\"loads\"") < place("id=\"w0\""));
    assert!(page.contains("<figcaption>Against the load</figcaption>"));
}

#[test]
fn crossed_loads_are_a_matrix_and_a_line_for_each_load() {
    let mut run = run();
    let mut trials = Vec::new();
    for (sender, receiver) in [(0u64, 0u64), (0, 2), (1, 0), (1, 2)] {
        for trial in run
            .trials
            .iter()
            .filter(|trial| trial.cell.transport() == "tcp")
        {
            let mut trial = trial.clone();
            let cell = trial.cell.with("sender_load", sender);
            trial.cell = cell.with("receiver_load", receiver);
            trials.push(trial);
        }
    }
    run.trials = trials;
    resummarise(&mut run);
    let text = report::table(&run, false, 200, &[]);
    let heading = "throughput at 64 B: messages received of tcp by load on the sending host (columns) \
                   and load on the receiving host (rows)";
    let at = text
        .find(heading)
        .unwrap_or_else(|| panic!("no matrix in\n{text}"));
    let lines: Vec<&str> = text[at..].lines().collect();
    assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["0", "1"]);
    for (line, load) in [(lines[3], "0"), (lines[4], "2")] {
        assert_eq!(line.split_whitespace().next(), Some(load), "{line}");
        assert_eq!(line.matches("/s").count(), 2, "{line}");
    }
    let page = report::html(&run);
    let caption = "Against load on the sending host, a line for each load on the receiving host";
    assert_eq!(page.matches(&format!("<figcaption>{caption}")).count(), 6);
    assert!(page.contains("load on the receiving host 2: "));
}

#[test]
fn factor_of_the_whole_run_is_said_once() {
    let run = under_load();
    let text = report::table(&run, false, 300, &[]);
    assert!(text.starts_with("All with link rate=10mbit."), "{text}");
    assert_eq!(text.matches("rate=10mbit").count(), 1, "{text}");
}

#[test]
fn open_contests_of_a_workload_are_one_line() {
    let mut run = run();
    // The same values for all, with noise that five blocks do not resolve.
    for (index, trial) in run.trials.iter_mut().enumerate() {
        let noise = 1.0 + ((index * 2_654_435_761) >> 7) as f64 % 1000.0 / 1000.0;
        for value in trial.metrics.values_mut() {
            *value = 1e3 * noise;
        }
    }
    resummarise(&mut run);
    let text = report::table(&run, false, 300, &[]);
    let folded = text
        .lines()
        .filter(|line| line.starts_with("? ") && line.contains("contests are open"));
    let folded: Vec<&str> = folded.collect();
    assert_eq!(folded.len(), 2, "{text}");
    assert!(
        folded[0].starts_with("? throughput: 3 of 3 contests are open; "),
        "{folded:?}"
    );
    assert!(!text.contains("not enough data"), "{text}");
}

#[test]
fn extras_stand_below_the_median() {
    let mut run = run();
    for trial in &mut run.trials {
        trial.metrics.insert("cpu_ns_per_message".into(), 1234.0);
    }
    // The delays of one contestant are too few.
    run.trials
        .retain(|trial| trial.cell.transport() != "quic" || trial.block == 1);
    for trial in &mut run.trials {
        if trial.cell.transport() == "quic" && trial.cell.workload() == "delay" {
            let mut few = results::new_histogram();
            few.saturating_record(40_000);
            let encoded = results::Histogram::encode(&few, "ns").expect("a histogram");
            trial.histograms.insert("delay".into(), encoded);
        }
    }
    resummarise(&mut run);
    let extras =
        ["p99", "cpu", "mbit", "bytes"].map(|word| report::Extra::parse(word).expect(word));
    let text = report::table(&run, false, 300, &extras);
    for words in [
        " Gbit/s",
        " GB/s",
        "CPU 1.23 \u{b5}s",
        "p99 1",
        "p99 unknown: 1 samples are too few",
    ] {
        assert!(text.contains(words), "no {words} in\n{text}");
    }
    assert!(report::Extra::parse("speed").is_err_and(|why| why.contains("p99, cpu, mbit, bytes")));
}

#[test]
fn contestant_alone_has_no_ratio() {
    let mut run = run();
    run.trials.retain(|trial| trial.cell.transport() == "tcp");
    run.plan.transports = vec!["tcp".into()];
    resummarise(&mut run);
    let text = report::table(&run, false, 200, &[]);
    assert!(!text.contains("ratio to"), "{text}");
    assert!(text.contains("tcp raced alone"), "{text}");
    for of_verdicts in ["probability", "Ratios", "ratio to"] {
        assert!(!text.contains(of_verdicts), "{of_verdicts}: {text}");
    }
}

#[test]
fn colour_changes_only_escape_codes() {
    let coloured = report::table(&run(), true, 100, &[]);
    assert!(coloured.contains("\u{1b}[32m"));
    let plain: String = coloured
        .lines()
        .map(|line| without_codes(line) + "\n")
        .collect();
    assert_eq!(plain, report::table(&run(), false, 100, &[]));
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
    let seconds = |row: usize| rows[row][column("s_per_message")].to_owned();
    assert_eq!(seconds(0), (1.0 / rate).to_string());
    assert_eq!(seconds(23), "");
    assert_eq!(&rows[6][column("factor.transport")], synthetic::HOSTILE);
}

#[test]
fn csv_formulas_are_quoted() {
    let mut run = run();
    run.trials[0].reason = "=HYPERLINK(\"x\")".into();
    assert!(report::csv(&run).contains("\"'=HYPERLINK"));
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

#[test]
fn clients_are_columns_and_each_has_its_rate() {
    let run = synthetic::clients();
    let text = report::table(
        &run,
        false,
        200,
        &[report::Extra::Clients, report::Extra::Link],
    );
    assert!(
        text.contains("transactions at 1 KiB: transactions by clients"),
        "{text}"
    );
    let header = text.lines().nth(1).expect("a header");
    let columns: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(columns, ["1", "4", "16"], "{text}");
    // 1e6 / 15.2 us / 1.4 for each of four clients of tcp.
    assert!(text.contains("188 k/s"), "{text}");
    assert!(
        text.contains("each 47.0 k/s (42.3 k/s to 51.7 k/s)"),
        "{text}"
    );
    assert!(text.contains("25 % of the link"), "{text}");
    assert!(!text.contains("each 59.8 k/s"), "{text}");
    let csv = report::csv(&run);
    assert!(
        csv.lines()
            .next()
            .is_some_and(|line| line.contains("clients"))
    );
}
