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

#[test]
fn image_has_blobs_of_their_digests_and_the_program_in_its_layer() {
    let scratch = Scratch::new("image");
    let layout = scratch.package("image");
    let read = |path: PathBuf| -> serde_json::Value {
        serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON")
    };
    let blob = |descriptor: &serde_json::Value| {
        let digest = descriptor["digest"].as_str().expect("a digest");
        let digest = digest.strip_prefix("sha256:").expect("SHA-256");
        let path = layout.join("blobs/sha256").join(digest);
        let said = output(Command::new("sha256sum").arg(&path)).expect("a sum");
        assert!(said.starts_with(digest), "{said}");
        let len = fs::metadata(&path).expect("a blob").len();
        assert_eq!(descriptor["size"].as_u64(), Some(len));
        path
    };
    assert_eq!(
        read(layout.join("oci-layout"))["imageLayoutVersion"],
        "1.0.0"
    );
    let manifest = read(blob(&read(layout.join("index.json"))["manifests"][0]));
    let config = read(blob(&manifest["config"]));
    let layer = &manifest["layers"][0];
    assert_eq!(config["rootfs"]["diff_ids"][0], layer["digest"]);
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/towpath");
    let tree = scratch.unpacked();
    output(
        Command::new("tar")
            .arg("-xf")
            .arg(blob(layer))
            .arg("-C")
            .arg(&tree),
    )
    .expect("it unpacks");
    let version = output(Command::new(tree.join("usr/bin/towpath")).arg("--version"));
    assert_eq!(version.expect("it runs"), "towpath 9.8.7\n");
    assert_eq!(
        fs::read_dir(layout.join("blobs/sha256"))
            .expect("blobs")
            .count(),
        3
    );
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
