//! Packages of a program that is a script, unpacked and looked at.

use super::*;

/// A folder with a program that answers as towpath does, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("towpath-package-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder");
        let script = "#!/bin/sh\ncase $1 in --version) echo towpath 9.8.7;; man) echo .TH towpath;; \
                      *) echo \"complete $2\";; esac\n";
        let program = path.join("program");
        fs::write(&program, script).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it may run");
        Scratch(path)
    }

    /// With the program that the tests of the workspace run, without its symbols; None, with a SKIPPED line, where
    /// it is not built.
    fn with_real_program(name: &str) -> Option<Scratch> {
        let built = crate::target(root()).join("debug/towpath");
        if !built.exists() {
            eprintln!("SKIPPED: {} is not built", built.display());
            return None;
        }
        let scratch = Scratch::new(name);
        let program = scratch.0.join("program");
        let mut strip = Command::new("strip");
        if output(strip.arg("-o").arg(&program).arg(&built)).is_err() {
            eprintln!("NOTE: no strip here, so the package holds symbols");
            fs::copy(&built, &program).expect("a copy");
        }
        Some(scratch)
    }

    fn package(&self, kind: &str) -> PathBuf {
        let (program, out) = (self.0.join("program"), self.0.join("out"));
        let words = [
            kind,
            "--program",
            program.to_str().expect("text"),
            "--out",
            out.to_str().expect("text"),
        ];
        let (kind, package) = Package::from_words(root(), &words).expect("good words");
        package.make(&kind).expect("a package")
    }

    fn unpacked(&self) -> PathBuf {
        let folder = self.0.join("unpacked");
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The program runs, and everything else is in its place.
fn check(tree: &Path) {
    let version = output(Command::new(tree.join("usr/bin/towpath")).arg("--version"));
    assert_eq!(version.expect("it runs"), "towpath 9.8.7\n");
    let text = |place: &str| fs::read_to_string(tree.join(place)).expect(place);
    assert_eq!(text("usr/share/man/man1/towpath.1"), ".TH towpath\n");
    assert_eq!(
        text("usr/share/bash-completion/completions/towpath"),
        "complete bash\n"
    );
    assert_eq!(
        text("usr/share/zsh/vendor-completions/_towpath"),
        "complete zsh\n"
    );
    assert!(text("usr/lib/systemd/system/towpath-agent.service").contains("[Service]"));
    assert!(text("usr/share/doc/towpath/LICENSE-MIT").contains("MIT"));
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: no {program} here");
    }
    found
}

#[test]
fn deb_unpacks_to_a_program_that_runs() {
    if !has("dpkg-deb") {
        return;
    }
    let scratch = Scratch::new("deb");
    let path = scratch.package("deb");
    let tree = scratch.unpacked();
    output(Command::new("dpkg-deb").arg("-x").arg(&path).arg(&tree)).expect("it unpacks");
    check(&tree);
    let field = |name: &str| output(Command::new("dpkg-deb").arg("-f").arg(&path).arg(name));
    assert_eq!(field("Version").expect("a field"), "9.8.7\n");
    let owners = output(Command::new("dpkg-deb").arg("-c").arg(&path)).expect("a list");
    assert!(
        owners.lines().all(|line| line.contains("root/root")),
        "{owners}"
    );
}

#[test]
fn tar_unpacks_and_is_the_same_twice() {
    let scratch = Scratch::new("tar");
    let path = scratch.package("tar");
    let first = fs::read(&path).expect("an archive");
    let again = scratch.package("tar");
    assert_eq!(fs::read(again).expect("an archive"), first);
    let tree = scratch.unpacked();
    let mut tar = Command::new("tar");
    output(tar.arg("-xzf").arg(&path).arg("-C").arg(&tree)).expect("it unpacks");
    check(&tree.join(format!("towpath-9.8.7-{}", std::env::consts::ARCH)));
    let mut sums = Command::new("sha256sum");
    let name = format!("{}.sha256", path.display());
    output(
        sums.args(["--check", &name])
            .current_dir(scratch.0.join("out")),
    )
    .expect("its sum");
}

/// A file of JSON.
fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

/// The file that a descriptor of an image names.
fn blob(layout: &Path, descriptor: &serde_json::Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().expect("a digest");
    let digest = digest.strip_prefix("sha256:").expect("SHA-256");
    layout.join("blobs/sha256").join(digest)
}

fn manifest(layout: &Path) -> serde_json::Value {
    let index = json(&layout.join("index.json"));
    json(&blob(layout, &index["manifests"][0]))
}

fn unpack(kind: &str, package: &Path, tree: &Path) {
    let mut command = match kind {
        "deb" => Command::new("dpkg-deb"),
        _ => Command::new("tar"),
    };
    match kind {
        "deb" => command.arg("-x").arg(package).arg(tree),
        "tar" => command.arg("-xzf").arg(package).arg("-C").arg(tree),
        _ => {
            let layer = blob(package, &manifest(package)["layers"][0]);
            command.arg("-xf").arg(layer).arg("-C").arg(tree)
        }
    };
    output(&mut command).expect("it unpacks");
}

#[test]
fn image_has_blobs_of_their_digests_and_the_program_in_its_layer() {
    let scratch = Scratch::new("image");
    let layout = scratch.package("image");
    assert_eq!(
        json(&layout.join("oci-layout"))["imageLayoutVersion"],
        "1.0.0"
    );
    let manifest = manifest(&layout);
    for descriptor in [&manifest["config"], &manifest["layers"][0]] {
        let path = blob(&layout, descriptor);
        let said = output(Command::new("sha256sum").arg(&path)).expect("a sum");
        let name = path.file_name().expect("a name").to_string_lossy();
        assert!(said.starts_with(&*name), "{said}");
        let len = fs::metadata(&path).expect("a blob").len();
        assert_eq!(descriptor["size"].as_u64(), Some(len));
    }
    let config = json(&blob(&layout, &manifest["config"]));
    let layer = &manifest["layers"][0];
    assert_eq!(config["rootfs"]["diff_ids"][0], layer["digest"]);
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/towpath");
    let tree = scratch.unpacked();
    unpack("image", &layout, &tree);
    let version = output(Command::new(tree.join("usr/bin/towpath")).arg("--version"));
    assert_eq!(version.expect("it runs"), "towpath 9.8.7\n");
    let blobs = fs::read_dir(layout.join("blobs/sha256")).expect("blobs");
    assert_eq!(blobs.count(), 3);
}

#[test]
fn skopeo_reads_and_copies_the_image() {
    if !has("skopeo") {
        return;
    }
    let scratch = Scratch::new("skopeo");
    let layout = format!("oci:{}", scratch.package("image").display());
    let said = output(Command::new("skopeo").args(["inspect", &layout])).expect("it reads");
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["Layers"].as_array().map(Vec::len), Some(1), "{said}");
    // A copy checks every digest.
    let copy = format!("dir:{}", scratch.unpacked().display());
    let mut skopeo = Command::new("skopeo");
    output(skopeo.args(["copy", "--insecure-policy", &layout, &copy])).expect("it copies");
}

#[test]
fn real_program_of_each_package_completes_words_and_races() {
    let Some(scratch) = Scratch::with_real_program("real") else {
        return;
    };
    for kind in ["tar", "deb", "image"] {
        if kind == "deb" && !has("dpkg-deb") {
            continue;
        }
        let tree = scratch.0.join(kind);
        fs::create_dir(&tree).expect("a folder");
        unpack(kind, &scratch.package(kind), &tree);
        let version = env!("CARGO_PKG_VERSION");
        let top = format!("towpath-{version}-{}", std::env::consts::ARCH);
        let tree = if kind == "tar" { tree.join(top) } else { tree };
        let program = tree.join("usr/bin/towpath");
        let said = output(Command::new(&program).arg("--version")).expect("it runs");
        assert!(said.contains(version), "{said}");
        race(&program, &scratch.0.join(format!("run-{kind}")));
        if kind != "image" {
            complete(&tree);
        }
    }
}

/// A race of two seconds, all trials of which end well.
fn race(program: &Path, out: &Path) {
    let words =
        "race tcp --sizes 64 --workload throughput --time 2s --regardless --no-report --out";
    let mut race = Command::new(program);
    output(race.args(words.split(' ')).arg(out)).expect("it races");
    let trials = fs::read_to_string(out.join("trials.jsonl")).expect("trials");
    assert!(trials.lines().count() > 0);
    for trial in trials.lines() {
        let trial: serde_json::Value = serde_json::from_str(trial).expect("JSON");
        assert_eq!(trial["status"], "ok", "{trial}");
    }
}

/// Bash takes the completions, and completes the name of a command.
fn complete(tree: &Path) {
    let file = tree.join("usr/share/bash-completion/completions/towpath");
    let script = format!(
        "source '{}'; COMP_WORDS=(towpath doc); COMP_CWORD=1; \
         $(complete -p towpath | sed 's/.*-F \\([^ ]*\\).*/\\1/') towpath doc towpath; \
         echo \"${{COMPREPLY[*]}}\"",
        file.display()
    );
    let said = output(Command::new("bash").args(["-c", &script])).expect("bash");
    assert_eq!(said.trim(), "doctor");
}

#[test]
fn words_that_are_no_package_are_refused() {
    for words in [
        &[][..],
        &["rpm"],
        &["deb", "--program"],
        &["deb", "--sign", "x"],
    ] {
        assert!(Package::from_words(root(), words).is_err(), "{words:?}");
    }
}
