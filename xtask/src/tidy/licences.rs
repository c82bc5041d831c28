//! Every dependency comes from crates.io under a licence that both licences of this project allow
//! to be distributed with it. Cargo's metadata is read offline, for the platform of the releases;
//! where a crate is not on this machine yet, the check is skipped in a line that says so.

use super::Fault;
use std::path::Path;
use std::process::Command;

/// Workspaces with lock files of their own.
const MANIFESTS: [&str; 3] = ["Cargo.toml", "fuzz/Cargo.toml", "python/Cargo.toml"];

/// The platform of the releases: others have more dependencies, which are never distributed.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Where dependencies come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Licences without conditions beyond keeping their text and notices; CC0-1.0 as docs/decisions/0089 says.
const ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Zlib",
];

/// Faults of the dependencies of both workspaces.
pub(super) fn check(root: &Path) -> Vec<Fault> {
    let of = |manifest: &str| match metadata(root, manifest) {
        Ok(metadata) => check_packages(manifest, &metadata),
        Err(error) => {
            let why = error.lines().find(|line| line.starts_with("error"));
            let why = why.unwrap_or("cargo gives no metadata");
            println!("SKIPPED: licences of {manifest}: {why}; run cargo fetch for it first");
            Vec::new()
        }
    };
    MANIFESTS.into_iter().flat_map(of).collect()
}

fn metadata(root: &Path, manifest: &str) -> Result<serde_json::Value, String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["metadata", "--locked", "--offline", "--format-version", "1"])
        .args(["--filter-platform", PLATFORM, "--manifest-path", manifest])
        .output()
        .map_err(|error| format!("cargo does not run: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

fn check_packages(manifest: &str, metadata: &serde_json::Value) -> Vec<Fault> {
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let fault = |what: String| Fault {
        path: manifest.to_owned(),
        line: 0,
        what,
    };
    let mut faults = Vec::new();
    for package in packages {
        let text = |member: &str| package[member].as_str().unwrap_or_default().to_owned();
        let name = format!("{} {}", text("name"), text("version"));
        let source = text("source");
        if !source.is_empty() && source != REGISTRY {
            faults.push(fault(format!("{name} comes from {source}, not crates.io")));
        }
        if !is_allowed(&text("license")) {
            let licence = text("license");
            faults.push(fault(format!(
                "{name} has the licence '{licence}', which is not in tidy's list; replace it, or \
                 decide about the licence in docs/decisions"
            )));
        }
    }
    faults
}

/// Whether an SPDX expression can be met by licences of the list. `AND` binds closer than `OR`;
/// parentheses stand around alternatives only, as everywhere on crates.io.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    match expression.split_once('(') {
        Some((before, rest)) => {
            let Some((inner, after)) = rest.split_once(')') else {
                return false;
            };
            let (before, after) = (before.trim(), after.trim());
            let outer = [before.strip_suffix("AND"), after.strip_prefix("AND")];
            let joined = before.is_empty() || outer[0].is_some();
            let rest = outer.into_iter().flatten().map(str::trim);
            let closed = after.is_empty() || outer[1].is_some();
            joined && closed && is_allowed(inner) && rest.into_iter().all(is_allowed)
        }
        None => expression.split(" OR ").any(|choice| {
            let mut all = choice.split(" AND ");
            all.all(|name| ALLOWED.contains(&name.trim()))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_listed_licences_meet_are_allowed() {
        for allowed in [
            "MIT",
            "MIT/Apache-2.0",
            "Unlicense OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 AND ISC",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "ISC AND (MIT OR GPL-3.0-only)",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for refused in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0) AND MPL-2.0",
            "(MIT OR Apache-2.0",
            "(GPL-2.0-only OR LGPL-2.1-only) AND MIT",
            "GPL-2.0-only OR (MIT)",
        ] {
            assert!(!is_allowed(refused), "{refused}");
        }
    }

    #[test]
    fn packages_from_elsewhere_or_without_licence_are_faults() {
        let package = |name: &str, source: serde_json::Value, licence: serde_json::Value| serde_json::json!({"name": name, "version": "1.0.0", "source": source, "license": licence});
        let (null, registry) = (serde_json::Value::Null, REGISTRY.into());
        let packages = serde_json::json!({"packages": [
            package("own", null.clone(), "MIT OR Apache-2.0".into()),
            package("good", registry, "MIT".into()),
            package("elsewhere", "git+https://example.org/x".into(), "MIT".into()),
            package("silent", REGISTRY.into(), null),
        ]});
        let faults = check_packages("Cargo.toml", &packages);
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("elsewhere 1.0.0 comes from git+"));
        assert!(said[1].contains("silent 1.0.0 has the licence ''"));
    }
}
