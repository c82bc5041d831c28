//! Result and scenario files of strangers: a sentence, in bounded memory, whatever they are.

use crate::support::{CommandOutput, Scratch, finish, race, towpath};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// Address space of the program in KiB: 256 MiB for what it reads, and 96 for the program itself.
const ADDRESS_SPACE_KIB: u32 = (256 + 96) << 10;

/// Runs the program with a limited address space.
#[track_caller]
fn towpath_in_bounds(arguments: &[&str]) -> CommandOutput {
    let mut shell = Command::new("sh");
    let script = format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\"");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_towpath")]);
    shell.args(arguments).stdin(Stdio::null());
    shell.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(shell.spawn().expect("the shell starts"))
}

#[track_caller]
fn is_refused(arguments: &[&str], why: &str) {
    let said = towpath_in_bounds(arguments);
    assert!(matches!(said.code, 1 | 2), "{}: {}", said.code, said.err);
    assert!(said.err.contains(why), "{arguments:?}: {}", said.err);
    assert!(said.err.lines().count() <= 2, "{}", said.err);
}

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo runs").success());
}

fn make_sparse(path: &Path) {
    let file = File::create(path).expect("a file");
    file.set_len(10 << 30).expect("a file system with holes");
}

#[test]
fn show_folder_of_pipes_devices_or_sparse_files_is_refused() {
    let scratch = Scratch::new();
    race(
        &scratch,
        "good",
        &["null", "--sizes", "64", "-w", "throughput"],
    );
    let good = scratch.path("good");
    assert_eq!(towpath_in_bounds(&["show", &scratch.text("good")]).code, 0);
    for name in ["plan.toml", "machine.json", "trials.jsonl", "summary.json"] {
        let folder = scratch.path("bad");
        let bad = folder.join(name);
        let remade = || {
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).expect("a folder");
            for file in fs::read_dir(&good).expect("a folder").flatten() {
                fs::copy(file.path(), folder.join(file.file_name())).expect("a copy");
            }
            fs::remove_file(&bad).expect("it was there");
        };
        let text = scratch.text("bad");
        remade();
        make_pipe(&bad);
        is_refused(&["show", &text], "it is a pipe, not a regular file");
        remade();
        symlink("/dev/zero", &bad).expect("a link");
        is_refused(&["show", &text], "it is a device, not a regular file");
        remade();
        make_sparse(&bad);
        is_refused(&["show", &text], "longer than");
    }
}

#[test]
fn show_million_trials_is_refused() {
    let scratch = Scratch::new();
    race(
        &scratch,
        "many",
        &["null", "--sizes", "64", "-w", "throughput"],
    );
    let path = scratch.path("many").join("trials.jsonl");
    let text = fs::read_to_string(&path).expect("trials");
    let line = text.lines().last().expect("a trial");
    let mut file = BufWriter::new(File::create(&path).expect("a file"));
    // Most lines are as short as a trial can be.
    let mut trial: serde_json::Value = serde_json::from_str(line).expect("JSON");
    for name in [
        "evidence",
        "series",
        "cpu",
        "effective",
        "histograms",
        "disturbed",
        "ledger",
    ] {
        trial.as_object_mut().expect("an object").remove(name);
    }
    trial["metrics"] = serde_json::json!({});
    trial["cell"] = serde_json::json!({});
    let short = trial.to_string();
    for _ in 0..1_000_000 {
        writeln!(file, "{short}").expect("the disk has room");
    }
    file.flush().expect("the disk has room");
    is_refused(
        &["show", &scratch.text("many")],
        "holds more than 100000 trials",
    );
}

#[test]
fn show_histogram_of_fifty_mib_is_refused_or_left_out() {
    let scratch = Scratch::new();
    race(&scratch, "fine", &["tcp", "--sizes", "64", "-w", "delay"]);
    let path = scratch.path("fine").join("trials.jsonl");
    // An empty histogram of five digits over all of 64 bits, 40 octets long.
    let mut header = vec![0x1c, 0x84, 0x93, 0x13];
    header.extend([0u32, 0, 5].map(u32::to_be_bytes).concat());
    header.extend(
        [1, u64::MAX, 1.0f64.to_bits()]
            .map(u64::to_be_bytes)
            .concat(),
    );
    let text = fs::read_to_string(&path).expect("trials");
    let edited = text.lines().map(|line| {
        let mut trial: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let histograms = trial["histograms"].as_object_mut().expect("histograms");
        for histogram in histograms.values_mut() {
            histogram["hdr_v2"] = base64(&header).into();
        }
        format!("{trial}\n").repeat(20)
    });
    let edited: String = edited.collect();
    fs::write(&path, edited).expect("it is written");
    let folder = scratch.text("fine");
    let _ = fs::remove_file(scratch.path("fine").join("summary.json"));
    let said = towpath_in_bounds(&["show", &folder]);
    assert!(matches!(said.code, 0..=2), "{}: {}", said.code, said.err);
}

fn base64(octets: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| -> String {
        let bits = three
            .iter()
            .fold(0u32, |bits, octet| bits << 8 | u32::from(*octet));
        let bits = bits << (8 * (3 - three.len()));
        let digit = |at: usize| match at <= three.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]),
            false => '=',
        };
        (0..4).map(digit).collect()
    };
    octets.chunks(3).map(group).collect()
}

#[test]
fn sim_run_pipe_device_or_sparse_file_is_refused() {
    let scratch = Scratch::new();
    let (pipe, sparse) = (scratch.text("pipe"), scratch.text("sparse"));
    make_pipe(Path::new(&pipe));
    make_sparse(Path::new(&sparse));
    for (file, why) in [
        (pipe.as_str(), "it is a pipe"),
        ("/dev/zero", "it is a device"),
        (sparse.as_str(), "it is longer than"),
    ] {
        is_refused(&["sim", "run", file], why);
        is_refused(&["sim", "sweep", file], why);
        is_refused(
            &["sim", "report", file, "--html", &scratch.text("page")],
            why,
        );
    }
    is_refused(
        &["sim", "diff", "/dev/zero", &sparse],
        "a line is longer than",
    );
}

#[test]
fn sim_sweep_to_full_disk_names_the_file() {
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../studies/scenarios/two-hosts.toml"
    );
    towpath(&["sim", "sweep", scenario, "--out", "/dev/full"])
        .failed(1, "cannot write /dev/full: ");
}

#[test]
fn sim_diff_of_unreadable_text_is_not_equal() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.text("one"), scratch.text("two"));
    fs::write(&one, b"1\n\xff\n2\n").expect("a file");
    fs::write(&two, b"1\n\xff\n3\n").expect("a file");
    is_refused(&["sim", "diff", &one, &two], "it is not UTF-8 text");
}
