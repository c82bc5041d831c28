//! pipe(2) and socketpair(2) over STREAMS, by rules of the families `pipe` and `unix`.

use crate::programs::{output_of, preloaded, scratch};
use crate::{compiled, refusal};
use std::process::Command;

/// Both kinds go over STREAMS.
const RULES: &str = "pipe * * /dev/pipe\nunix * * /dev/pipe\n";

#[test]
fn pipes_lie_in_streams_until_the_kernel_is_needed_and_do_then_what_its_own_do() {
    let scratch = scratch("pipes");
    let Some(program) = compiled(&scratch, "pipes") else {
        return;
    };
    let program = program.display().to_string();
    scratch.write("rules", RULES);
    output_of(&mut preloaded(&program, &scratch));
    // The same program finds the same of the kernel's pipes.
    output_of(Command::new(&program).arg("kernel"));
}

/// Threads with a pipe in between, a program that is started with pipes, one that is forked, and an event loop.
const USES_PIPES: &str = r#"
import asyncio, multiprocessing, os, subprocess, threading
ends = os.pipe()
def write():
    for number in range(5000):
        os.write(ends[1], number.to_bytes(4, "little") * 10)
    os.close(ends[1])
threading.Thread(target=write).start()
with_all = b"".join(iter(lambda: os.read(ends[0], 1000), b""))
assert with_all == b"".join(number.to_bytes(4, "little") * 10 for number in range(5000))
said = subprocess.run(["tr", "a-z", "A-Z"], input=b"started", stdout=subprocess.PIPE).stdout
assert said == b"STARTED", said
queue = multiprocessing.get_context("fork").Queue()
child = multiprocessing.get_context("fork").Process(target=queue.put, args=("forked",))
child.start()
assert queue.get(timeout=20) == "forked"
child.join()
async def loop():
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    out, _ = await process.communicate(b"loop")
    return out
assert asyncio.run(loop()) == b"loop"
print("all")
"#;

#[test]
fn python_uses_pipes_over_streams_between_threads_and_the_kernels_with_processes() {
    let is_there = Command::new("python3").arg("--version").output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: there is no python3");
        return;
    }
    let scratch = scratch("pipes-python");
    scratch.write("rules", RULES);
    let mut program = preloaded("python3", &scratch);
    assert_eq!(output_of(program.args(["-c", USES_PIPES])), "all\n");
}

#[test]
fn rules_of_pipes_have_neither_hosts_nor_other_transports() {
    let scratch = scratch("pipes-refused");
    let text = refusal(&scratch, "pipe * * xtp\nunix 127.0.0.1 * /dev/pipe\n");
    assert!(
        text.contains(":1: transport `xtp`; use kernel or /dev/pipe"),
        "{text}"
    );
    assert!(
        text.contains(":2: family unix has neither hosts nor ports"),
        "{text}"
    );
}
