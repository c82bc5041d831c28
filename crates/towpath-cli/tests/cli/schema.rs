//! Result folders and profiles against the schemas in `docs/schema/v1`.

use boon::{Compiler, Schemas};
use serde_json::Value;
use std::path::Path;

/// Fails unless every file of the folder matches its schema; plan, machine and trials are required.
#[track_caller]
pub fn accepts_folder(folder: &Path) {
    let read = |name: &str| std::fs::read_to_string(folder.join(name));
    let plan: toml::Value =
        toml::from_str(&read("plan.toml").expect("a plan")).expect("the plan is TOML");
    accepts("plan", &serde_json::to_value(plan).expect("it has a form"));
    let json = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
    accepts("machine", &json(&read("machine.json").expect("a machine")));
    for line in read("trials.jsonl").expect("trials").lines() {
        accepts("trial", &json(line));
    }
    if let Ok(text) = read("summary.json") {
        accepts("summary", &json(&text));
    }
}

/// Fails unless a `profile.json`, of one transport or of several, matches its schema.
#[track_caller]
pub fn accepts_profile(found: &Value) {
    accepts("profile", found);
}

#[track_caller]
fn accepts(name: &str, value: &Value) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/v1");
    let text = std::fs::read_to_string(format!("{folder}/{name}.schema.json"));
    let schema = serde_json::from_str(&text.expect("the schema is there")).expect("JSON");
    let place = format!("urn:towpath:test:{name}");
    let mut compiler = Compiler::new();
    compiler.add_resource(&place, schema).expect("one resource");
    let mut schemas = Schemas::new();
    let index = compiler.compile(&place, &mut schemas);
    let index = index.unwrap_or_else(|error| panic!("{name}: {error:#}"));
    if let Err(error) = schemas.validate(value, index) {
        panic!("{name}: {error:#}\n{value:#}");
    }
}
