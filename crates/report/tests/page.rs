//! The HTML page of complete, incomplete and hostile runs.

#[path = "../../../fuzz/src/text.rs"]
mod mutation;
mod synthetic;

use mutation::{Draws, mutated};
use results::{RunData, RunStatus, VerdictKind};
use std::path::Path;
use synthetic::{HOSTILE, run};

#[test]
fn page_has_verdict_first_and_all_sections() {
    let page = report::html(&run());
    let place = |text: &str| {
        page.find(text)
            .unwrap_or_else(|| panic!("{text} is missing"))
    };
    assert!(place("<h1>") < place("id=\"verdict\""));
    let sections = [
        "verdict", "w0", "w1", "model", "time", "trials", "machine", "repeat",
    ];
    let places: Vec<usize> = sections
        .iter()
        .map(|id| place(&format!("id=\"{id}\"")))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    for text in [
        "Highest message rate: bare, 5.",
        "0.9 wake-ups a message against 2.1",
        "at most 5 %",
        "tcp against itself, was equal in 6 of 6 contests",
        "16 KiB",
        "reliable, ordered, stream, kernel",
        "towpath race --sizes 64,1KiB,16KiB --out &#x27;it",
        "steal 4.2 % of the span",
        "the receiver ran out of ports",
        "tcp is better below about 4,000 B, udp above",
        "this is a virtual machine",
    ] {
        place(text);
    }
}

#[test]
fn hostile_strings_are_escaped() {
    let page = report::html(&run());
    assert!(!page.contains("<script>alert"), "a name became a script");
    assert!(!page.contains("<img"), "a reason became an image");
    assert!(!page.contains('\u{1b}'), "a control character came through");
    assert!(page.contains("&lt;script&gt;alert(1)"));
    // The data, uPlot and the page's own script.
    assert_eq!(page.matches("<script").count(), 3);
    assert_eq!(page.matches("</script").count(), 3);
}

#[test]
fn page_has_no_non_finite_numbers() {
    let page = report::html(&run());
    let own = page
        .split("<script>")
        .next()
        .expect("the part before the scripts");
    for rubbish in ["NaN", "inf ", "inf\"", "infinity"] {
        assert!(!own.contains(rubbish), "{rubbish} in the page");
    }
}

#[test]
fn page_is_self_contained() {
    let page = report::html(&run());
    assert!(
        page.contains("default-src 'none'"),
        "the page's own lock is missing"
    );
    let markup = page
        .split("<script>")
        .next()
        .expect("the part before the scripts");
    let tags = markup
        .split('<')
        .skip(1)
        .filter_map(|rest| rest.split_once('>'));
    for (tag, _) in tags {
        let loads = ["src=", "<link", "iframe", "object", "xlink", "srcset"];
        let found = loads.iter().find(|attribute| tag.contains(**attribute));
        assert!(found.is_none(), "<{tag}> loads something");
        assert!(
            !tag.contains("href=") || tag.contains("href=\"#"),
            "<{tag}> leads away"
        );
    }
    for word in ["@import", "url("] {
        assert!(!markup.contains(word), "{word} in the style");
    }
}

#[test]
fn every_valid_trial_is_a_dot() {
    let run = run();
    let page = report::html(&run);
    let hint = "tcp at 64 B, block 3: ";
    assert!(page.contains(hint), "block 3 of tcp is not drawn");
    let hostile_name = format!(
        "{} at 64 B, block 2",
        HOSTILE.replace('<', "&lt;").replace('>', "&gt;")
    );
    assert!(page.contains(&hostile_name));
}

#[test]
fn incomplete_run_shows_banner_first() {
    let mut killed = run();
    killed.summary = None;
    killed.trials.truncate(50);
    let page = report::html(&killed);
    let banner = page.find("This run was cut off").expect("a banner");
    assert!(banner < page.find("<h1>").expect("a headline"));
    assert!(page.contains("No verdict"));
    assert!(
        page.contains("<svg class=\"chart\""),
        "trials are still drawn"
    );

    let mut stopped = run();
    if let Some(summary) = &mut stopped.summary {
        summary.status = RunStatus::Interrupted;
        summary.reason = "Ctrl-C".into();
    }
    assert!(report::html(&stopped).contains("stopped before its end (Ctrl-C)"));
}

#[test]
fn offered_load_section_has_three_curves() {
    let page = report::html(&synthetic::offered());
    for curve in [
        "messages delivered per second",
        "messages lost",
        "delay from the scheduled",
    ] {
        assert!(page.contains(curve), "{curve} is not drawn");
    }
    // Four rates are four points of one curve, not four sections.
    assert_eq!(page.matches("<h2>Offered").count(), 1);
    assert!(page.contains("tcp offered 338 k/s: 338 k/s"));
}

#[test]
fn page_has_notes_once_fitted_times_and_trials_in_order() {
    let page = report::html(&run());
    let note = "packets of throughput tcp at 64 B: ";
    assert_eq!(page.matches(note).count(), 1);
    assert!(page.contains("aria-label=\"time per message over message size"));
    assert!(page.contains("aria-label=\"Trials in the order they ran\""));
    assert!(page.contains("<summary>Numbers</summary>"));
}

#[test]
fn every_varied_number_is_an_axis() {
    let mut varied = run();
    for trial in &mut varied.trials {
        let messages = 100 * u64::from(1 + trial.block % 3);
        trial.cell = trial.cell.clone().with("messages", messages);
    }
    varied.summary = None;
    let page = report::html(&varied);
    assert!(page.contains(": messages</h3>"), "no matrix of the factor");
    assert!(page.contains("Against messages"));
    assert!(page.contains("standard deviation, % of the mean"));
}

#[test]
fn empty_run_renders_page() {
    let mut empty = run();
    empty.trials.clear();
    empty.summary = None;
    empty.machine.facts.clear();
    empty.plan.transports.clear();
    assert!(report::html(&empty).contains("</html>"));
    assert!(report::table(&empty, false, 80, &[]).contains("No verdict"));
    assert_eq!(report::csv(&empty).lines().count(), 1);
}

#[test]
fn inconclusive_or_failed_control_is_reported() {
    let mut open = run();
    let control = &mut open.summary.as_mut().expect("a summary").control;
    control[0].kind = VerdictKind::NotEnoughData;
    control[0].ratio = 1.29;
    let page = report::html(&open);
    assert!(page.contains("not confirmed equal in 1 of 6 contests"));
    assert!(page.contains("up to 29 % apart"));

    let control = &mut open.summary.as_mut().expect("a summary").control;
    control[1].kind = VerdictKind::Faster;
    assert!(report::html(&open).contains("Warning: the control"));
}

#[test]
fn delay_section_shows_only_delays() {
    let page = report::html(&run());
    let delay = &page[page.find("id=\"w1\"").expect("delay")..];
    let delay = delay.split("</section>").next().expect("its end");
    assert!(delay.contains("round trip, median against message size"));
    assert!(!delay.contains("messages received per second"));
}

#[test]
fn same_run_renders_identical_page() {
    assert!(report::html(&run()) == report::html(&run()));
}

#[test]
fn vendored_files_match_readme() {
    let vendor = Path::new(env!("CARGO_MANIFEST_DIR")).join("vendor");
    let readme = std::fs::read_to_string(vendor.join("README.md")).expect("vendor/README.md");
    for name in ["uPlot.iife.min.js", "uPlot.min.css", "LICENSE-uPlot"] {
        let line = readme.lines().find(|line| line.contains(name));
        let line = line.unwrap_or_else(|| panic!("{name} is not described"));
        let size = std::fs::metadata(vendor.join(name)).expect(name).len();
        assert!(
            line.contains(&format!(" {size} ")),
            "{name} has {size} bytes"
        );
    }
}

/// `value` with mutated members, where it is still one of its type.
fn mutated_value<T>(value: &T, draws: &mut Draws) -> Option<T>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let text = serde_json::to_string(value).expect("JSON");
    serde_json::from_str(&mutated(&text, draws)).ok()
}

/// Whatever numbers and names a result has, its page, tables and rows are written.
#[test]
fn mutated_results_are_shown() {
    let whole = run();
    let mut shown = 0;
    for seed in 0..120 {
        let mut draws = Draws(seed);
        let mut run = RunData {
            path: whole.path.clone(),
            plan: whole.plan.clone(),
            machine: whole.machine.clone(),
            trials: whole.trials.iter().take(42).cloned().collect(),
            summary: whole.summary.clone(),
        };
        let mut changed = 0;
        if let Some(plan) = mutated_value(&run.plan, &mut draws) {
            // A reader of folders refuses others.
            changed += u32::from(run.plan.check().is_ok());
            run.plan = plan;
        }
        for trial in &mut run.trials {
            if let Some(other) = mutated_value(trial, &mut draws) {
                *trial = other;
                changed += 1;
            }
        }
        if let Some(summary) = mutated_value(&run.summary, &mut draws) {
            run.summary = summary;
            changed += 1;
        }
        if run.plan.check().is_err() {
            continue;
        }
        shown += changed;
        let page = report::html(&run);
        assert!(
            !page.contains("\u{1b}[2J"),
            "seed {seed}: an escape sequence"
        );
        assert!(
            !page.contains('\u{202e}'),
            "seed {seed}: a change of direction"
        );
        let table = report::table(&run, false, 100, &[]);
        assert!(
            !table.contains("\u{1b}[2J"),
            "seed {seed}: an escape sequence"
        );
        report::csv(&run);
    }
    assert!(shown > 100, "only {shown} changes were shown");
}

#[test]
fn rates_against_clients_have_a_chart_and_a_table() {
    let page = report::html(&synthetic::clients());
    assert!(page.contains("Against the number of clients"));
    assert!(page.contains("Transactions at 1 KiB: clients"));
    assert!(page.contains("tcp with 16 clients: "));
    assert!(page.contains("each client "));
}

#[test]
fn costs_divide_cpu_time_by_ticks_of_all_trials() {
    let mut run = run();
    for trial in &mut run.trials {
        let half = results::Cpu {
            task_s: 0.1,
            user_s: 0.075,
            system_s: 0.025,
            ..results::Cpu::default()
        };
        trial.cpu = ["sender", "receiver"]
            .map(|side| (side.to_owned(), half))
            .into();
        trial.metrics.insert("cpu_ns_per_message".into(), 1000.0);
        trial.metrics.insert("cpu_ns_per_byte".into(), 2.0);
        trial.evidence.insert("host_softirq_s".into(), 0.02);
    }
    run.summary = None;
    // 5 trials of 0.2 s; 200,000 messages each.
    let page = report::html(&run).replace("&#x2f;", "/");
    let row = "<td>750 ns</td><td>250 ns</td><td>100 ns</td><td>2.00 ns/B</td>";
    assert!(page.contains(row), "{page}");
    for trial in &mut run.trials {
        for cpu in trial.cpu.values_mut() {
            (cpu.user_s, cpu.system_s) = (0.004, 0.004);
        }
    }
    let few = report::html(&run).replace("&#x2f;", "/");
    let dash = "\u{2013}";
    let row = format!("<td>{dash}</td><td>{dash}</td><td>{dash}</td><td>2.00 ns/B</td>");
    assert!(few.contains(&row), "too few ticks are no share");
}
