//! The page in a real browser: nothing on the console, nothing wider than the window, in light and
//! dark, wide and narrow. Prints SKIPPED where there is no Chromium.
//!
//! `TOWPATH_SCREENSHOTS=DIR cargo test -p towpath-report --test browser` also leaves pictures in DIR.

mod synthetic;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Timeout of the browser for one page, in seconds.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs before everything else on the page and writes its observations into attributes of the
/// parent document.
const COLLECTOR: &str = include_str!("collector.html");

/// A temporary folder, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("towpath-report-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover folder does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn pages_have_no_script_errors_and_fit_window() {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: no Chromium here; install the package chromium to test pages");
        return;
    };
    let run = synthetic::run();
    let verdicts = run.summary.clone().expect("a summary").verdicts;
    let pages = [
        ("race", report::html(&run)),
        ("offered", report::html(&synthetic::offered())),
        ("clients", report::html(&synthetic::clients())),
        (
            "compare",
            report::compare_html(&verdicts, &[], "monday", "tuesday"),
        ),
        ("history", {
            let (runs, cells) = synthetic::history();
            report::history_html(&runs, &cells)
        }),
        ("runs", {
            let listed = ["a", "b"].map(|name| report::ListedRun::of(&run, name, Some(name)));
            report::runs_html(&report::RunsPage {
                folder: "results".into(),
                runs: listed.into(),
                unread: vec!["c/plan.toml is damaged".into()],
                left_out: Vec::new(),
            })
        }),
    ];
    for (name, page) in pages {
        for width in [1280, 400] {
            for dark in [false, true] {
                check(&browser, name, &page, width, dark);
            }
        }
    }
}

#[test]
fn collector_reports_errors_and_width() {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: no Chromium here; install the package chromium to test pages");
        return;
    };
    let broken = "<!doctype html><html><head></head><body><main><p style=\"width:3000px\">x</main>\
                  <script>missing()</script></body></html>";
    let scratch = Scratch::new("broken");
    let output = open(&browser, &scratch.0, broken, 400, false);
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(
        attribute(&dom, "errors").is_some_and(|text| text.contains("missing")),
        "{dom}"
    );
    assert!(attribute(&dom, "over").is_some_and(|over| over != "0"));
}

fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let places = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}

fn check(browser: &Path, name: &str, page: &str, width: u32, dark: bool) {
    let scheme = if dark { "dark" } else { "light" };
    let case = format!("{name} at {width} in {scheme}");
    let scratch = Scratch::new(&format!("{name}-{width}-{scheme}"));
    let output = open(browser, &scratch.0, page, width, dark);
    let dom = String::from_utf8_lossy(&output.stdout);
    let get = |what: &str| {
        attribute(&dom, what).unwrap_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            panic!("{case}: the page did not load to its end ({what} is missing)\n{said}")
        })
    };
    assert_eq!(
        get("width"),
        width.to_string(),
        "{case}: the window has another width"
    );
    assert_eq!(
        get("dark"),
        dark.to_string(),
        "{case}: the scheme is another"
    );
    assert_eq!(attribute(&dom, "errors"), None, "{case}: the console spoke");
    let said = String::from_utf8_lossy(&output.stderr);
    let console: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect();
    assert!(console.is_empty(), "{case}: {console:?}");
    assert_eq!(
        get("over"),
        "0",
        "{case}: wider than the window, by {}",
        get("wide")
    );
    assert_eq!(get("wide"), "", "{case}: parts stick out");
    if name == "race" {
        assert_ne!(get("plots"), "0", "{case}: no zoomable chart");
        assert_eq!(
            get("open"),
            "1,1",
            "{case}: one baseline's picture a workload"
        );
    }
    if let Some(folder) = std::env::var_os("TOWPATH_SCREENSHOTS") {
        let picture = PathBuf::from(folder).join(format!("{name}-{width}-{scheme}.png"));
        screenshot(browser, &scratch.0, width, dark, &picture);
    }
}

/// Loads the page with the collector; the output contains the document and the console.
fn open(browser: &Path, folder: &Path, page: &str, width: u32, dark: bool) -> Output {
    let watched = page.replacen("<head>", &format!("<head>{COLLECTOR}"), 1);
    std::fs::write(folder.join("page.html"), framed(&watched, width)).expect("a page");
    let mut command = command(browser, folder, width, 900, dark);
    command.args(["--dump-dom", "--virtual-time-budget=5000"]);
    finish(&mut command, folder)
}

/// The page in a frame of the wanted width: the browser's own window is never narrower than 500.
fn framed(page: &str, width: u32) -> String {
    let text = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!doctype html><html><body style=\"margin:0\"><iframe style=\"border:0;display:block;\
         width:{width}px;height:100vh\" srcdoc=\"{text}\"></iframe></body></html>"
    )
}

fn screenshot(browser: &Path, folder: &Path, width: u32, dark: bool, picture: &Path) {
    let height = if width < 600 { 16_000 } else { 9_000 };
    let mut command = command(browser, folder, width, height, dark);
    command.arg(format!("--screenshot={}", picture.display()));
    command.arg("--virtual-time-budget=5000");
    finish(&mut command, folder);
    assert!(picture.is_file(), "no picture {}", picture.display());
}

fn command(browser: &Path, folder: &Path, width: u32, height: u32, dark: bool) -> Command {
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--hide-scrollbars",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--enable-logging=stderr",
        "--v=0",
    ]);
    command.arg(format!(
        "--user-data-dir={}",
        folder.join("profile").display()
    ));
    command.arg(format!("--window-size={width},{height}"));
    command.arg(format!(
        "--blink-settings=preferredColorScheme={}",
        u8::from(!dark)
    ));
    command
}

/// Runs the browser, and kills it on timeout. Its output goes to files, so that it never blocks.
fn finish(command: &mut Command, folder: &Path) -> Output {
    let file = |name: &str| std::fs::File::create(folder.join(name)).expect(name);
    command.arg(format!("file://{}", folder.join("page.html").display()));
    command
        .stdin(Stdio::null())
        .stdout(file("out"))
        .stderr(file("err"));
    let mut child = command.spawn().expect("the browser starts");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the browser's state") {
            break status;
        }
        if start.elapsed() > BROWSER_TIMEOUT {
            // It may have ended just now.
            let _ = child.kill();
            break child.wait().expect("the browser's end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
    Output {
        status,
        stdout: read("out"),
        stderr: read("err"),
    }
}

/// An attribute of the root element.
fn attribute(dom: &str, name: &str) -> Option<String> {
    let start = dom.find("<html")?;
    let tag = &dom[start..start + dom[start..].find('>')?];
    let value = tag.split(&format!("data-{name}=\"")).nth(1)?;
    Some(value.split('"').next()?.to_owned())
}
