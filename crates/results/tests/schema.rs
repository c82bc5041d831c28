//! The program's output matches the schemas in `docs/schema/`, and broken files do not.

mod plain;
#[path = "../../../fuzz/src/text.rs"]
mod text;

use boon::{Compiler, SchemaIndex, Schemas};
use results::{
    Cell, CellSummary, Cpu, Crossover, Estimate, Fact, Finding, Fit, FitPiece, Histogram, Ledger,
    Machine, Plan, RunData, RunFolder, RunStatus, SCHEMA_VERSION, Series, Severity, Status,
    Summary, Trial, Verdict, VerdictKind, new_histogram,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use text::{Draws, mutated};

/// One compiled schema.
struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    fn read(name: &str) -> Schema {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/v1");
        let text = std::fs::read_to_string(format!("{folder}/{name}.schema.json"));
        let value = serde_json::from_str(&text.expect("the schema is there")).expect("JSON");
        let place = format!("urn:towpath:test:{name}");
        let mut compiler = Compiler::new();
        compiler.add_resource(&place, value).expect("one resource");
        let mut schemas = Schemas::new();
        let index = compiler.compile(&place, &mut schemas);
        Schema {
            index: index.unwrap_or_else(|error| panic!("{name}: {error:#}")),
            schemas,
        }
    }

    #[track_caller]
    fn accepts(&self, value: &Value) {
        if let Err(error) = self.schemas.validate(value, self.index) {
            panic!("{error:#}\n{value:#}");
        }
    }

    /// Rejects `value` once the member at `pointer` is `member`, or gone.
    #[track_caller]
    fn rejects(&self, value: &Value, pointer: &str, member: Option<Value>) {
        let mut broken = value.clone();
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        let parent = broken.pointer_mut(parent).expect("the parent is there");
        let Value::Object(parent) = parent else {
            panic!("{pointer} is not in an object");
        };
        match member {
            Some(member) => parent.insert(name.to_owned(), member),
            None => parent.remove(name),
        };
        assert_ne!(&broken, value, "{pointer} changes nothing");
        let outcome = self.schemas.validate(&broken, self.index);
        assert!(outcome.is_err(), "{pointer} is accepted:\n{broken:#}");
    }
}

fn numbers(entries: &[(&str, f64)]) -> BTreeMap<String, f64> {
    let entries = entries.iter();
    entries
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect()
}

fn cell() -> Cell {
    Cell::default()
        .with(Cell::TRANSPORT, "tcp")
        .with(Cell::WORKLOAD, "delay")
        .with(Cell::SIZE, 64)
        .with("link", "rate=10mbit")
}

fn trial() -> Trial {
    let mut delays = new_histogram();
    delays.record(17_000).expect("in range");
    Trial {
        version: SCHEMA_VERSION,
        index: 3,
        block: 1,
        cell: cell(),
        control: false,
        status: Status::Ok,
        reason: String::new(),
        disturbed: vec!["the hypervisor took 2.1 % of the processors' time".into()],
        started_s: 1.7e9,
        span_s: 0.5,
        warm_up_s: 0.05,
        metrics: numbers(&[("delay_p50_us", 17.0)]),
        evidence: numbers(&[("wakeups_per_message", 0.9)]),
        histograms: [(
            "delay".to_owned(),
            Histogram::encode(&delays, "ns").expect("it encodes"),
        )]
        .into(),
        series: [(
            "messages_per_s".to_owned(),
            Series {
                unit: "/s".into(),
                at_s: vec![0.1, 0.2],
                values: vec![10.0, 11.0],
            },
        )]
        .into(),
        ledger: Some(Ledger {
            sent: 2,
            delivered: 1,
            unaccounted: -1,
            ..Ledger::default()
        }),
        cpu: [("sender".to_owned(), Cpu::default())].into(),
        effective: [("sender.congestion".to_owned(), "cubic".to_owned())].into(),
    }
}

fn verdict(kind: VerdictKind) -> Verdict {
    Verdict {
        contest: cell().without(Cell::TRANSPORT),
        metric: "delay_p50_us".into(),
        contestant: "udp".into(),
        baseline: "tcp".into(),
        kind,
        ratio: 0.8,
        low: 0.75,
        high: 0.85,
        alpha: 0.01,
        pairs: 10,
        blocks_needed: (kind == VerdictKind::NotEnoughData).then_some(40),
        because: "1.0 wake-ups a message against 2.0".into(),
    }
}

fn cell_summary() -> CellSummary {
    CellSummary {
        cell: cell(),
        trials_ok: 10,
        trials_bad: 1,
        metrics: [("delay_p50_us".to_owned(), Estimate::default())].into(),
        evidence: numbers(&[("calls_per_message", 1.0)]),
        quantiles: [(
            "delay".to_owned(),
            numbers(&[("0.5", 17.0), ("0.99", 30.0)]),
        )]
        .into(),
        samples: [("delay".to_owned(), 1_000)].into(),
    }
}

fn summary() -> Summary {
    let kinds = [
        VerdictKind::Faster,
        VerdictKind::Slower,
        VerdictKind::Equal,
        VerdictKind::NotEnoughData,
    ];
    let piece = FitPiece {
        from: 64.0,
        to: 1024.0,
        fixed: 700.0,
        per_byte: 0.1,
    };
    Summary {
        version: SCHEMA_VERSION,
        status: RunStatus::Complete,
        reason: String::new(),
        blocks: 10,
        elapsed_s: 61.0,
        cells: vec![cell_summary()],
        verdicts: kinds.map(verdict).to_vec(),
        overall: vec![Verdict {
            contest: Cell::default(),
            ..verdict(VerdictKind::Faster)
        }],
        control: vec![verdict(VerdictKind::Equal)],
        beside: vec![Verdict {
            metric: "messages_per_s.tcp#1".into(),
            ..verdict(VerdictKind::Slower)
        }],
        fits: vec![Fit {
            cell: cell().without(Cell::SIZE),
            metric: "time_per_message_ns".into(),
            pieces: vec![piece],
            deviation_max: 0.02,
        }],
        crossovers: vec![Crossover {
            contest: Cell::default(),
            metric: "time_per_message_ns".into(),
            below: "udp".into(),
            above: "tcp".into(),
            size: 700.5,
        }],
        warnings: vec!["the control differs from 1".into()],
    }
}

fn machine() -> Machine {
    let severities = [
        Severity::Good,
        Severity::Note,
        Severity::Warning,
        Severity::Bad,
    ];
    let finding = |severity| Finding {
        severity,
        what: "the frequency governor is powersave".into(),
        effect: "trials differ".into(),
        remedy: "set it to performance".into(),
    };
    Machine {
        version: SCHEMA_VERSION,
        facts: vec![Fact {
            group: "cpu".into(),
            name: "model".into(),
            value: "a processor".into(),
        }],
        findings: severities.map(finding).to_vec(),
    }
}

fn plan() -> Plan {
    Plan {
        seed: 7,
        workloads: vec!["delay".into()],
        sizes: vec![64, 1024],
        trial_s: 0.5,
        options: [("circuits".to_owned(), "2".to_owned())].into(),
        ..plain::plan(&["tcp", "udp"])
    }
}

fn json_of(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("it serialises")
}

#[test]
fn trial_matches_schema() {
    let schema = Schema::read("trial");
    schema.accepts(&json_of(&trial()));
    for status in [Status::Invalid, Status::Failed, Status::Interrupted] {
        schema.accepts(&json_of(&Trial {
            status,
            reason: "out of ports".into(),
            ledger: None,
            ..trial()
        }));
    }
}

#[test]
fn schema_rejects_broken_trials() {
    let schema = Schema::read("trial");
    let whole = json_of(&trial());
    let required = ["version", "index", "cell", "status", "metrics", "span_s"];
    for name in required {
        schema.rejects(&whole, &format!("/{name}"), None);
    }
    schema.rejects(&whole, "/version", Some(json!(2)));
    schema.rejects(&whole, "/status", Some(json!("fine")));
    schema.rejects(&whole, "/reason", Some(json!("ok needs none")));
    schema.rejects(&whole, "/status", Some(json!("failed")));
    schema.rejects(&whole, "/index", Some(json!(-1)));
    schema.rejects(&whole, "/surprise", Some(json!(1)));
    schema.rejects(&whole, "/cell/transport", None);
    schema.rejects(&whole, "/cell/link", Some(json!({"rate": 1})));
    schema.rejects(&whole, "/cell/size", Some(json!(-1)));
    schema.rejects(
        &whole,
        "/histograms/delay/hdr_v2",
        Some(json!("no base64!")),
    );
    schema.rejects(&whole, "/ledger/sent", Some(json!(1.5)));
    schema.rejects(&whole, "/cpu/sender/task_s", Some(json!(-0.1)));
    schema.rejects(&whole, "/effective/sender.congestion", Some(json!(1)));
}

#[test]
fn schema_rejects_non_finite_metric() {
    let mut trial = trial();
    trial.metrics.insert("delay_p99_us".into(), f64::NAN);
    let written = json_of(&trial);
    let repaired = json_of(&self::trial());
    let schema = Schema::read("trial");
    schema.rejects(&repaired, "/metrics", Some(written["metrics"].clone()));
}

#[test]
fn summary_matches_schema() {
    let schema = Schema::read("summary");
    schema.accepts(&json_of(&summary()));
    for status in [RunStatus::Interrupted, RunStatus::Failed] {
        schema.accepts(&json_of(&Summary {
            status,
            reason: "the user stopped it".into(),
            ..summary()
        }));
    }
}

#[test]
fn schema_rejects_broken_summaries() {
    let schema = Schema::read("summary");
    let whole = json_of(&summary());
    for name in ["version", "status", "cells", "verdicts", "control"] {
        schema.rejects(&whole, &format!("/{name}"), None);
    }
    schema.rejects(&whole, "/status", Some(json!("interrupted")));
    schema.rejects(&whole, "/verdicts/0/kind", Some(json!("better")));
    schema.rejects(&whole, "/verdicts/0/alpha", Some(json!(2)));
    schema.rejects(&whole, "/verdicts/0/ratio", Some(Value::Null));
    schema.rejects(&whole, "/cells/0/quantiles/delay", Some(json!({"99%": 1})));
    schema.rejects(&whole, "/cells/0/metrics/delay_p50_us/n", None);
    schema.rejects(&whole, "/fits/0/pieces", Some(json!([])));
    schema.rejects(&whole, "/crossovers/0/size", Some(json!("700 B")));
}

#[test]
fn machine_matches_schema_and_broken_is_rejected() {
    let schema = Schema::read("machine");
    let whole = json_of(&machine());
    schema.accepts(&whole);
    schema.rejects(&whole, "/facts", None);
    schema.rejects(&whole, "/facts/0/value", Some(json!(3)));
    schema.rejects(&whole, "/findings/0/severity", Some(json!("worst")));
}

#[test]
fn plan_matches_schema_through_toml_and_broken_is_rejected() {
    let text = toml::to_string_pretty(&plan()).expect("it serialises");
    let value: toml::Value = toml::from_str(&text).expect("it is TOML");
    let whole = json_of(&value);
    let schema = Schema::read("plan");
    schema.accepts(&whole);
    schema.rejects(&whole, "/seed", None);
    schema.rejects(&whole, "/alpha", Some(json!(1)));
    schema.rejects(&whole, "/blocks/looks", Some(json!([])));
    schema.rejects(&whole, "/transports", Some(json!([])));
    schema.rejects(&whole, "/options/circuits", Some(json!(2)));
}

/// A result folder of a stranger is read or refused in one line.
#[test]
fn mutated_folders_are_read_or_refused() {
    let path = std::env::temp_dir().join(format!("towpath-mutated-{}", std::process::id()));
    // Left by an earlier process with this number.
    let _ = std::fs::remove_dir_all(&path);
    let mut folder = RunFolder::create(&path, &plan(), &machine()).expect("a new folder");
    (0..5).for_each(|_| folder.append(&trial()).expect("it is written"));
    folder.finish(&summary()).expect("it is written");
    for name in ["plan.toml", "machine.json", "trials.jsonl", "summary.json"] {
        let file = path.join(name);
        let text = std::fs::read_to_string(&file).expect("a text");
        let (mut accepted, mut refused) = (0, 0);
        for seed in 0..500 {
            std::fs::write(&file, mutated(&text, &mut Draws(seed))).expect("it is written");
            match RunData::read(&path) {
                Ok(run) => {
                    accepted += 1;
                    run.missing_trials();
                    let trials = run.trials.iter();
                    let histograms = trials.flat_map(|trial| trial.histograms.values());
                    // Those that are damaged are left out where they are shown.
                    histograms.for_each(|histogram| drop(histogram.decode()));
                }
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().contains('\n'), "{name}, {seed}: {error}");
                }
            }
        }
        std::fs::write(&file, text).expect("it is written");
        assert!(accepted > 5 && refused > 5, "{name}: {accepted}, {refused}");
    }
    std::fs::remove_dir_all(&path).expect("it was there");
}
