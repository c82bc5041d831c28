//! An OCI image from nothing, as a layout in a folder (OCI image-spec 1.1): one layer with the static program.

use super::{Package, make_parent, output, refused, remove};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A blob of the layout.
struct Blob {
    digest: String,
    octets: u64,
}

impl Blob {
    fn descriptor(&self, kind: &str) -> Value {
        json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": format!("sha256:{}", self.digest),
            "size": self.octets,
        })
    }
}

/// Writes the layout; gives its folder.
pub(super) fn make(package: &Package, work: &Path) -> Result<PathBuf, String> {
    let tree = work.join("rootfs");
    package.put(&tree, "usr/bin/towpath", &package.program, 0o755)?;
    package.fill_licences(&tree)?;
    let layout = work.join("layout");
    let tar = work.join("layer.tar");
    package.archive(&tree, "usr", &tar)?;
    let layer = add(&layout, &tar)?;
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": { "Entrypoint": ["/usr/bin/towpath"], "WorkingDir": "/" },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", layer.digest)] },
    });
    let config = add_json(&layout, work, &config)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor("config.v1+json"),
        "layers": [layer.descriptor("layer.v1.tar")],
    });
    let manifest = add_json(&layout, work, &manifest)?;
    let mut descriptor = manifest.descriptor("manifest.v1+json");
    descriptor["annotations"] = json!({ "org.opencontainers.image.ref.name": package.version });
    descriptor["platform"] = json!({ "architecture": architecture(), "os": "linux" });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [descriptor],
    });
    write(&layout.join("index.json"), &index)?;
    write(
        &layout.join("oci-layout"),
        &json!({ "imageLayoutVersion": "1.0.0" }),
    )?;
    let out = package.out.join(format!("{}-image", package.name()));
    remove(&out)?;
    fs::rename(&layout, &out).map_err(|error| refused(&out, &error))?;
    Ok(out)
}

/// Names of architectures as Go has them.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Moves a file among the blobs, under its SHA-256.
fn add(layout: &Path, file: &Path) -> Result<Blob, String> {
    let said = output(Command::new("sha256sum").arg(file))?;
    let digest = said
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned();
    let octets = fs::metadata(file)
        .map_err(|error| refused(file, &error))?
        .len();
    let place = layout.join("blobs/sha256").join(&digest);
    make_parent(&place)?;
    fs::rename(file, &place).map_err(|error| refused(&place, &error))?;
    Ok(Blob { digest, octets })
}

fn add_json(layout: &Path, work: &Path, value: &Value) -> Result<Blob, String> {
    let file = work.join("blob.json");
    write(&file, value)?;
    add(layout, &file)
}

fn write(path: &Path, value: &Value) -> Result<(), String> {
    fs::write(path, value.to_string()).map_err(|error| refused(path, &error))
}
