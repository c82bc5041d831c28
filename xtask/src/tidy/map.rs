//! ARCHITECTURE.md's table of crates agrees with Cargo: its last column is made from Cargo's
//! metadata by `cargo xtask tidy --map`.

use super::Fault;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The page with the table.
const PAGE: &str = "ARCHITECTURE.md";

/// Each crate below `crates/` with the crates of the workspace that it depends on, tests aside.
type Edges = BTreeMap<String, Vec<String>>;

/// Faults of the table; one fault if Cargo gives no metadata.
pub(super) fn check(root: &Path) -> Vec<Fault> {
    match (edges(root), std::fs::read_to_string(root.join(PAGE))) {
        (Ok(edges), Ok(page)) => check_page(&page, &edges),
        (Err(what), _) => vec![fault(0, what)],
        (_, Err(error)) => vec![fault(0, error.to_string())],
    }
}

/// Writes the last column anew.
pub(super) fn write(root: &Path) -> Result<(), String> {
    let edges = edges(root)?;
    let path = root.join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let lines = page.lines().map(|line| match row(line) {
        Some((name, holds, _)) if edges.contains_key(name) => {
            format!("| `{name}` | {holds} | {} |", knows(&edges[name]))
        }
        _ => line.to_owned(),
    });
    let text = lines.collect::<Vec<_>>().join("\n") + "\n";
    std::fs::write(path, text).map_err(|error| error.to_string())
}

fn fault(line: usize, what: String) -> Fault {
    Fault {
        path: PAGE.to_owned(),
        line,
        what,
    }
}

fn edges(root: &Path) -> Result<Edges, String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["metadata", "--locked", "--no-deps", "--format-version", "1"])
        .output()
        .map_err(|error| format!("cargo does not run: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata = serde_json::from_slice(&output.stdout);
    let metadata: serde_json::Value = metadata.map_err(|error| error.to_string())?;
    Ok(edges_of(&metadata))
}

fn edges_of(metadata: &serde_json::Value) -> Edges {
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut edges = Edges::new();
    for package in list(&metadata["packages"]) {
        if !text(&package["manifest_path"]).contains("/crates/") {
            continue;
        }
        let dependencies = list(&package["dependencies"]).into_iter();
        let ours = dependencies.filter(|d| d["path"].is_string() && d["kind"].is_null());
        let mut ours: Vec<String> = ours
            .map(|dependency| folder(Path::new(&text(&dependency["path"]))))
            .collect();
        ours.sort();
        let manifest = text(&package["manifest_path"]);
        let own = Path::new(&manifest).parent().unwrap_or(Path::new(""));
        edges.insert(folder(own), ours);
    }
    edges
}

/// The last folder of a path: the table names crates by their folders, which are the names in `use`.
fn folder(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Name, contents and last column of a row of the table.
fn row(line: &str) -> Option<(&str, &str, &str)> {
    let cells: Vec<&str> = line
        .strip_prefix("| `")?
        .strip_suffix(" |")?
        .split(" | ")
        .collect();
    let [name, holds, knows] = cells[..] else {
        return None;
    };
    Some((name.strip_suffix('`')?, holds, knows))
}

fn knows(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.is_empty() {
        true => "nothing".to_owned(),
        false => quoted.join(", "),
    }
}

fn check_page(page: &str, edges: &Edges) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut seen = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let Some((name, _, last)) = row(line) else {
            continue;
        };
        seen.push(name);
        match edges.get(name).map(|names| knows(names)) {
            Some(right) if right != last => {
                let what = format!("`{name}` knows {right}; run cargo xtask tidy --map");
                faults.push(fault(index + 1, what));
            }
            Some(_) => {}
            None => faults.push(fault(index + 1, format!("there is no crate `{name}`"))),
        }
    }
    let missing = edges.keys().filter(|name| !seen.contains(&name.as_str()));
    faults.extend(missing.map(|name| fault(0, format!("crate `{name}` has no row in the table"))));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges() -> Edges {
        let package = |name: &str, deps: serde_json::Value| {
            let path = format!("/a/crates/{name}/Cargo.toml");
            serde_json::json!({"name": name, "manifest_path": path, "dependencies": deps})
        };
        let on = |name: &str, kind: serde_json::Value| {
            let path = format!("/a/crates/{name}");
            serde_json::json!({"name": name, "kind": kind, "path": path})
        };
        let null = serde_json::Value::Null;
        let wire =
            serde_json::json!([on("engine", null), on("sim", "dev".into()), {"name": "libc"}]);
        edges_of(&serde_json::json!({"packages": [
            package("engine", serde_json::json!([])),
            package("wire", wire),
        ]}))
    }

    #[test]
    fn right_table_has_no_fault() {
        let page = "| `engine` | contract | nothing |\n| `wire` | media | `engine` |\n";
        assert_eq!(check_page(page, &edges()), []);
    }

    #[test]
    fn wrong_missing_and_invented_rows_are_faults() {
        let page = "| `wire` | media | nothing |\n| `ghost` | none | nothing |\n";
        let faults = check_page(page, &edges());
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(faults[0].what.contains("knows `engine`;"), "{}", faults[0]);
    }
}
