//! Transports that another program brings along: what it says of them, and a program that has some.

mod description;

use super::answer;
use control::validate;
use description::Description;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use towpath::Transport;

/// Characters of what a program says that are kept.
const TEXT_MAX: usize = 200;

/// What this program answers to `worker --transport NAME`.
///
/// # Errors
///
/// When it has none of that name.
pub fn described(name: &str) -> Result<String, String> {
    let transport = towpath::find(name).map_err(|error| error.to_string())?;
    serde_json::to_string(&Description::of(transport)).map_err(|error| error.to_string())
}

/// Asks `program` for its transport `name`, which may then take part in races under that name.
///
/// # Errors
///
/// A sentence: it cannot be asked, has none of that name, or describes it in a way that cannot be.
pub fn learn(program: &Path, name: &str) -> Result<(), String> {
    let shown = program.display();
    let words = ["--transport", name];
    let asked = super::ask(&super::located(program), &words, super::ANSWER_LIMIT);
    let (text, status) = asked.map_err(|error| {
        format!("program {shown} cannot be asked for the transport '{name}': {error}")
    })?;
    let first = text.lines().next().unwrap_or_default();
    let parsed: Option<Description> = serde_json::from_str(first).ok();
    let ended_well = status.is_some_and(|status| status.success());
    let description = parsed.filter(|_| ended_well).ok_or_else(|| {
        let said = validate::printable(first, TEXT_MAX);
        format!(
            "neither this program nor {shown} has a transport '{name}'; {shown} answers '{said}'"
        )
    })?;
    let transport = description
        .into_transport(program)
        .filter(|one| one.name() == name)
        .ok_or_else(|| {
            format!("what program {shown} says of its transport '{name}' cannot be: names are of a-z, 0-9, - and _")
        })?;
    towpath::add(Box::leak(Box::new(transport)))
}

/// The main function of a program that brings transports of its own into races, next to those of this
/// library: `towpath race tcp mine,program=./my-program`. `build` names the program and its build.
///
/// Its arguments are those of `towpath worker`; see [`crate::worker_program`].
pub fn serve(build: &str, transports: &[&'static dyn Transport]) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let added = transports.iter().try_for_each(|one| towpath::add(*one));
    match added.and_then(|()| answered(&words, build)) {
        Ok(line) => {
            // Who asked has gone if this fails.
            let _ = line.map(|line| writeln!(io::stdout(), "{line}"));
            ExitCode::SUCCESS
        }
        Err(why) => {
            let _ = writeln!(io::stderr(), "{why}");
            ExitCode::from(2)
        }
    }
}

/// Does what the words ask for; gives the line to print.
fn answered(words: &[&str], build: &str) -> Result<Option<String>, String> {
    match words {
        ["worker", "--protocol"] => Ok(Some(answer(build))),
        ["worker", "--transport", name] => described(name).map(Some),
        ["worker"] => {
            let socket = io::stdin().as_fd().try_clone_to_owned();
            crate::worker::main(socket.map_err(|error| error.to_string())?);
            Ok(None)
        }
        _ => Err("this program runs in races only: towpath race NAME,program=PATH".to_owned()),
    }
}
