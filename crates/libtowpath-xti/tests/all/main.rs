//! C programs with `xti.h` and `tiuser.h`: each checks itself.

#[path = "../../../libtowpath/tests/all/cdylib.rs"]
mod cdylib;
mod netperf;

use std::fs;
use std::path::Path;
use std::process::Command;

/// Builds a program of `tests`, links it with the library, and runs it.
fn build_and_run(source: &str) {
    let folder = cdylib::build_libraries(&["towpath-c", "towpath-xti-c"]);
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = scratch.join(format!("{source}-{}", std::process::id()));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-o"]);
    cc.arg(&program).arg(here.join("tests").join(source));
    cc.arg("-I").arg(here.join("include"));
    cc.arg("-L").arg(&folder).arg("-ltowpath_xti");
    cc.arg(format!("-Wl,-rpath,{}", folder.display()));
    let Ok(built) = cc.output() else {
        eprintln!("SKIPPED: there is no C compiler (cc)");
        return;
    };
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let ran = Command::new(&program).output().expect("it runs");
    let _ = fs::remove_file(&program);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{source}: {} {said}", ran.status);
}

#[test]
fn every_call_of_xti_works_and_says_its_errors() {
    build_and_run("xti.c");
}

#[test]
fn connection_a_request_and_its_response_as_netperf_makes_them() {
    build_and_run("crr.c");
}

#[test]
fn tli_program_works_over_ticots() {
    build_and_run("tli.c");
}

#[test]
fn options_of_sctp_are_set_and_travel_with_messages() {
    build_and_run("sctp.c");
}
