//! Captures of what crosses the rings of a shortcut, and of cells, as tshark reads them.

use crate::support::{Scratch, program, tshark_fields};
use crate::xtp_tools::{Tool, listener};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough for a machine that does much else.
const LIMIT: Duration = Duration::from_secs(60);

/// Octets of a file that has packets of both directions.
const SOME: u64 = 20_000;

/// Interface, source and destination port, and section of each packet of a capture; None without tshark.
fn packets_of(file: &Path) -> Option<Vec<[String; 4]>> {
    let fields = [
        "frame.interface_name",
        "udp.srcport",
        "udp.dstport",
        "frame.section_number",
    ];
    tshark_fields(file, &[], fields)
}

#[test]
fn capture_of_a_tunnel_has_what_went_through_its_ring() {
    let scratch = Scratch::new();
    let folder = scratch.text(".");
    let variables = [("TOWPATH_CAPTURE_RINGS", folder.as_str())];
    let (listener, target) = listener();
    let from = ["forward", "--from", "xtp", "127.0.0.1:0", "--to", &target];
    let far = Tool::start_with(&from, &variables);
    let over = ["forward", "127.0.0.1:0", "--over", "xtp", &far.at];
    let near = Tool::start_with(&over, &variables);
    let mut tcp = TcpStream::connect(&near.at).expect("it listens");
    let process = far.child.as_ref().expect("it runs").id();
    let file = scratch.path(&format!("{process}.pcapng"));
    tcp.write_all(&[1; 1000]).expect("room");
    let (mut served, _) = listener.accept().expect("a peer");
    served.read_exact(&mut [0; 1000]).expect("it comes");
    let end = Instant::now() + LIMIT;
    // The rings are made beside the first packets, which go by UDP.
    while fs::metadata(&file).expect("a capture").len() < SOME {
        assert!(Instant::now() < end, "nothing went through rings");
        tcp.write_all(&[2; 1000]).expect("room");
        served.read_exact(&mut [0; 1000]).expect("it comes");
        served.write_all(&[3; 1000]).expect("room");
        tcp.read_exact(&mut [0; 1000]).expect("it comes");
    }
    let Some(packets) = packets_of(&file) else {
        return;
    };
    let port = far.at.rsplit(':').next().expect("a port");
    let name = format!("ring of {}", far.at);
    assert!(packets.iter().all(|one| one[0] == name), "{packets:?}");
    for at in [1, 2] {
        let count = packets.iter().filter(|one| one[at] == port).count();
        assert!(count > 0, "{packets:?}");
    }
}

/// Captures a race in a loopback of its own, which no other test uses; what was said, None where that is not possible.
pub(crate) fn captured_race(scratch: &Scratch, file: &str, contestant: &str) -> Option<String> {
    let temporary = scratch.path("tmp");
    fs::create_dir(&temporary).expect("a folder");
    let race = ["race", contestant, "--sizes", "64", "-w", "delay"];
    let mut command = Command::new("unshare");
    let script = "ip link set lo up && exec \"$0\" \"$@\"";
    let command = command.args(["--map-root-user", "--net", "sh", "-c", script]);
    let command = command.arg(program().get_program()).args(race);
    // Several trials, so that rings are met in one of them on a machine that does much else too.
    let command = command.args(["--blocks", "2", "--trial", "300ms", "--no-report"]);
    let command = command.args(["--capture", file, "--out", &scratch.text("run")]);
    let command = command.env("TMPDIR", &temporary);
    let lock = scratch.path("lock");
    let output = command
        .env("TOWPATH_RACE_LOCK", lock)
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        eprintln!("SKIPPED: unshare is absent");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.starts_with("unshare: ") {
        eprintln!("SKIPPED: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    let left = fs::read_dir(&temporary).expect("it is there").count();
    assert_eq!(left, 0, "the workers' captures are removed");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn capture_of_a_race_has_what_went_through_rings() {
    let scratch = Scratch::new();
    let file = scratch.text("race.pcapng");
    let Some(said) = captured_race(&scratch, &file, "xtp,shortcut=on") else {
        return;
    };
    assert!(said.contains("then those through rings of "), "{said}");
    let Some(packets) = packets_of(Path::new(&file)) else {
        return;
    };
    // The first section is the loopback's; each process that had rings has one behind it.
    let of_rings = packets.iter().filter(|one| one[3] != "1");
    let sections: std::collections::BTreeSet<_> = of_rings.map(|one| &one[3]).collect();
    assert!(sections.len() >= 2, "both ends: {sections:?}");
}

#[test]
fn capture_of_a_race_has_its_cells_and_the_pdus_of_aal5() {
    let scratch = Scratch::new();
    let file = scratch.text("race.pcapng");
    let Some(said) = captured_race(&scratch, &file, "aal5") else {
        return;
    };
    assert!(said.contains("then the cells of "), "{said}");
    let mut tshark = Command::new("tshark");
    // What is inside a PDU is not guessed.
    let tshark = tshark.args(["-n", "-o", "erf.aal5_type:Unspecified", "-V"]);
    // Some of the first behind the loopback's own.
    let filter = "frame.section_number > 1 && erf";
    let Ok(output) = tshark.args(["-Y", filter, "-r"]).arg(&file).output() else {
        eprintln!("SKIPPED: tshark is absent: apt-get install tshark");
        return;
    };
    let read = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let count = |words: &str| read.matches(words).count();
    let (cells, pdus) = (count("Type 3: ATM"), count("Type 4: AAL5"));
    assert!(cells >= pdus && pdus > 100, "{cells} cells, {pdus} PDUs");
    assert_eq!(count("(correct)"), pdus, "checks of PDUs");
    assert_eq!(count("Malformed"), 0);
}
