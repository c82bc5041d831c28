//! `towpath watch`: a running race, study or sweep, from its own files. The run knows nothing of it.
//!
//! * [`race`] - trials so far, what was disturbed, time left, verdicts at looks.
//! * [`rows`] - a study, and the rows of a sweep.

pub mod race;
pub mod rows;

use crate::{CliError, EXIT_OK, print};
use clap::Args;
use race::RaceWatch;
use rows::{StudyWatch, SweepWatch};
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is watched, and how.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Verdicts are shown as of the last look of the plan and at no other time: who stops a race when a verdict \
pleases sees more false ones than --alpha says.

Examples:
  towpath race tcp udp --time 10m --out results/a     in one terminal
  towpath watch results/a                             in another
  towpath watch results/a --once                      for scripts
  towpath watch rows.jsonl                            the rows of `sim sweep --out`
  towpath watch results/a --metrics 127.0.0.1:9471    for Prometheus, on this host only"
)]
pub struct WatchArgs {
    /// The folder of a race or a study, or the file of a sweep's rows.
    pub folder: PathBuf,
    /// Print the state once and end.
    #[arg(long, conflicts_with = "metrics")]
    pub once: bool,
    /// Time between two looks at the files.
    #[arg(long, default_value = "2s", value_parser = crate::parse::time)]
    pub every: Duration,
    /// Also serve the state as OpenMetrics over HTTP at this address of the loopback.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
}

/// The state of what is watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The state as text.
    pub text: String,
    /// Numbers by name, unit and meaning.
    pub gauges: Vec<Gauge>,
    /// Whether it has ended.
    pub ended: bool,
}

/// A number of OpenMetrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// Its name, with its unit last if it has one.
    pub name: &'static str,
    /// Its unit, empty for counts.
    pub unit: &'static str,
    /// Its meaning.
    pub help: &'static str,
    /// Its value.
    pub value: f64,
}

/// What is watched.
enum Watched {
    Race(Box<RaceWatch>),
    Study(StudyWatch),
    Sweep(SweepWatch),
}

impl Watched {
    fn open(path: &Path) -> Result<Watched, CliError> {
        if path.is_file() {
            return Ok(Watched::Sweep(SweepWatch::new(path)));
        }
        if path.join(study::folder::RESULT_FILE).exists() {
            return Ok(Watched::Study(StudyWatch::new(path)));
        }
        RaceWatch::open(path).map(|race| Watched::Race(Box::new(race)))
    }

    fn look(&mut self) -> Result<View, CliError> {
        match self {
            Watched::Race(race) => race.look(now_s()),
            Watched::Study(study) => study.look(),
            Watched::Sweep(sweep) => sweep.look(),
        }
    }
}

/// Watches until what is watched has ended, or once.
///
/// # Errors
///
/// When the files cannot be read, or the address is not on the loopback.
pub fn run(args: &WatchArgs) -> Result<u8, CliError> {
    let mut watched = Watched::open(&args.folder)?;
    let mut view = watched.look()?;
    let served = Arc::new(Mutex::new(open_metrics(&view.gauges)));
    if let Some(listen) = args.metrics {
        serve(listen, Arc::clone(&served))?;
    }
    show(&view)?;
    while !view.ended && !args.once {
        std::thread::sleep(args.every);
        let next = watched.look()?;
        if let Ok(mut served) = served.lock() {
            *served = open_metrics(&next.gauges);
        }
        if next.text != view.text {
            show(&next)?;
        }
        view = next;
    }
    Ok(EXIT_OK)
}

/// Home, and clear to the end of the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Draws over what was there; elsewhere than on a terminal, each state follows the one before.
fn show(view: &View) -> Result<(), CliError> {
    let mut out = std::io::stdout();
    if out.is_terminal() {
        print::bytes(CLEAR.as_bytes())?;
    }
    print::line(&view.text)?;
    // The next line shows whether the terminal is still there.
    let _ = out.flush();
    Ok(())
}

fn serve(listen: SocketAddr, served: Arc<Mutex<String>>) -> Result<(), CliError> {
    let source = move || served.lock().map(|text| text.clone()).unwrap_or_default();
    let address = agent::server::metrics::serve(listen, source)
        .map_err(|error| CliError::usage(format!("cannot serve metrics at {listen}: {error}")))?;
    print::note(format_args!("metrics on http://{address}/metrics"));
    Ok(())
}

/// Gauges as OpenMetrics text (version 1.0.0).
fn open_metrics(gauges: &[Gauge]) -> String {
    let mut text = String::new();
    for gauge in gauges.iter().filter(|gauge| gauge.value.is_finite()) {
        let name = format!("towpath_watch_{}", gauge.name);
        text.push_str(&format!("# TYPE {name} gauge\n"));
        if !gauge.unit.is_empty() {
            text.push_str(&format!("# UNIT {name} {}\n", gauge.unit));
        }
        text.push_str(&format!(
            "# HELP {name} {}\n{name} {}\n",
            gauge.help, gauge.value
        ));
    }
    text.push_str("# EOF\n");
    text
}

fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// A count as a number of OpenMetrics.
fn count(name: &'static str, help: &'static str, value: usize) -> Gauge {
    Gauge {
        name,
        unit: "",
        help,
        value: value as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_as_open_metrics_end_with_eof_and_have_units_in_names() {
        let left = Gauge {
            name: "left_seconds",
            unit: "seconds",
            help: "time left",
            value: 12.5,
        };
        let unknown = Gauge {
            value: f64::NAN,
            ..left
        };
        let text = open_metrics(&[count("trials", "trials so far", 3), left, unknown]);
        assert_eq!(
            text,
            "# TYPE towpath_watch_trials gauge\n# HELP towpath_watch_trials trials so far\n\
             towpath_watch_trials 3\n# TYPE towpath_watch_left_seconds gauge\n\
             # UNIT towpath_watch_left_seconds seconds\n# HELP towpath_watch_left_seconds time left\n\
             towpath_watch_left_seconds 12.5\n# EOF\n"
        );
    }
}
