//! The words of `push=`: which modules, in which order, and what each needs below it.

use super::capture::CaptureModule;
use super::compress::{CompressCounts, CompressModule};
use super::fault::{Fault, FaultCounts};
use super::seal::Seal;
use super::settings::{OPTIONS, PUSH, Settings, module_of};
use crate::contract::Class;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use streams::modules::{Buffer, Meter, MeterCounts, Pass};
use streams::{Module, Side};

/// Modules of one stream: as many as `I_PUSH` takes elsewhere (NSTRPUSH).
const MODULES_MAX: usize = 9;

/// A module that can be pushed by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pass,
    Buffer,
    Meter,
    Capture,
    Fault,
    Compress,
    Seal,
}

const KINDS: [(&str, Kind); 7] = [
    ("pass", Kind::Pass),
    ("buffer", Kind::Buffer),
    ("meter", Kind::Meter),
    ("capture", Kind::Capture),
    ("fault", Kind::Fault),
    ("compress", Kind::Compress),
    ("seal", Kind::Seal),
];

/// Where modules stand: what is below them, and which end it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The transport has no messages.
    pub(super) is_stream: bool,
    /// The transport loses nothing.
    pub(super) is_reliable: bool,
    /// It is the end that connects.
    pub(super) connects: bool,
}

/// Adds what a module counted to the counts of its circuit.
pub(super) type Report = Box<dyn Fn(&mut BTreeMap<String, u64>) + Send>;

/// Modules of one circuit, the user's end first, and what reports their counts.
pub(super) type Made = (Vec<Box<dyn Module>>, Vec<Report>);

/// The modules of a circuit, the user's end first, with their settings: the words of `push=` and of the
/// options of the modules in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModuleStack {
    modules: Vec<Kind>,
    settings: Settings,
}

impl ModuleStack {
    /// Takes the options of modules out of `own`. None: nothing is pushed.
    ///
    /// # Errors
    ///
    /// A sentence that names the word and what would be right.
    pub fn take(own: &mut BTreeMap<String, String>) -> Result<Option<ModuleStack>, String> {
        let given: Vec<(&str, String)> = OPTIONS
            .iter()
            .filter_map(|option| Some((option.name, own.remove(option.name)?)))
            .collect();
        let Some(words) = own.remove(PUSH.name) else {
            return match given.first() {
                None => Ok(None),
                Some((name, value)) => Err(not_pushed(name, value)),
            };
        };
        let mut stack = ModuleStack {
            modules: parse_words(&words)?,
            settings: Settings::default(),
        };
        for (name, value) in &given {
            let is_pushed = |kind: &Kind| name_of(*kind) == module_of(name);
            if !stack.modules.iter().any(is_pushed) {
                return Err(not_pushed(name, value));
            }
            stack.settings.set(name, value)?;
        }
        stack.check_settings()?;
        Ok(Some(stack))
    }

    fn check_settings(&self) -> Result<(), String> {
        let has = |kind| self.modules.contains(&kind);
        if has(Kind::Capture) && self.settings.capture_to.is_none() {
            return Err("push=capture needs capture-to=FOLDER, where it writes its files".into());
        }
        if has(Kind::Seal) && self.settings.seal_key.is_none() {
            return Err("push=seal needs seal-key=FILE, a key of 32 octets".into());
        }
        let place = |kind| self.modules.iter().position(|other| *other == kind);
        if let (Some(seal), Some(compress)) = (place(Kind::Seal), place(Kind::Compress))
            && seal < compress
        {
            return Err(format!(
                "push={}: what is sealed does not become shorter; push compress above seal, \
                 push=compress/seal",
                self.words()
            ));
        }
        let fault = &self.settings.fault;
        if has(Kind::Fault) && fault.drop == 0.0 && fault.corrupt == 0.0 && fault.delay.is_zero() {
            return Err(
                "push=fault does nothing so; add fault-drop=1%, fault-corrupt=1% or fault-delay=5ms"
                    .into(),
            );
        }
        Ok(())
    }

    /// Whether the modules only hand on what comes, whatever the boundaries of messages.
    pub(super) fn only_hands_on(&self) -> bool {
        let hands_on = |kind: &Kind| matches!(kind, Kind::Pass | Kind::Buffer);
        self.modules.iter().all(hands_on)
    }

    /// Whether the modules can stand on a transport called `name` of this class.
    /// The error is a sentence that names the module and what would be right.
    pub(super) fn check(&self, name: &str, class: &Class) -> Result<(), String> {
        if self.settings.fault.drop > 0.0 && class.reliable {
            return Err(format!(
                "fault-drop= on {name}: nothing sends again what is dropped above a reliable \
                 transport, and its peer would wait for ever; use it on udp or another that may lose \
                 messages"
            ));
        }
        let keeps_all = class.reliable && class.ordered;
        if self.modules.contains(&Kind::Seal) && !keeps_all {
            return Err(format!(
                "push=seal on {name}: its frames are numbered, and {name} may lose messages or change \
                 their order; use it on tcp, xtp or another that does neither"
            ));
        }
        Ok(())
    }

    /// Whether the modules can stand on a byte stream of XTP.
    ///
    /// # Errors
    ///
    /// A sentence that names the module and what would be right.
    pub fn check_on_xtp(&self) -> Result<(), String> {
        let xtp = crate::registry::find("xtp");
        xtp.map_or(Ok(()), |xtp| self.check("xtp", &xtp.class()))
    }

    /// The class of circuits with these modules on a transport of `class`.
    pub(super) fn class(&self, class: Class) -> Class {
        match self.modules.contains(&Kind::Seal) {
            true => Class {
                encrypted: true,
                checksum: "Poly1305 of each message, and the transport's own",
                ..class
            },
            false => class,
        }
    }

    /// Whether a module holds messages by the clock.
    pub(super) fn keeps_time(&self) -> bool {
        !self.settings.fault.delay.is_zero()
    }

    /// Its words, as in the option.
    pub fn words(&self) -> String {
        let names: Vec<&str> = self.modules.iter().map(|kind| name_of(*kind)).collect();
        names.join("/")
    }

    /// New modules for one circuit, on what is at `place`. Errors: that of a file of a module.
    pub(super) fn make(&self, place: Place) -> io::Result<Made> {
        let (mut modules, mut reports) = Made::default();
        for (at, kind) in self.modules.iter().enumerate() {
            let before = self.modules[..at].iter().filter(|other| *other == kind);
            let prefix = match before.count() {
                0 => name_of(*kind).to_owned(),
                count => format!("{}{}", name_of(*kind), count + 1),
            };
            let (module, report) = self.make_one(*kind, prefix, place)?;
            modules.push(module);
            reports.extend(report);
        }
        Ok((modules, reports))
    }

    fn make_one(
        &self,
        kind: Kind,
        prefix: String,
        place: Place,
    ) -> io::Result<(Box<dyn Module>, Option<Report>)> {
        let settings = &self.settings;
        Ok(match kind {
            Kind::Pass => (Box::new(Pass), None),
            Kind::Buffer => {
                let buffer = settings.marks.map_or_else(Buffer::default, Buffer::new);
                (Box::new(buffer), None)
            }
            Kind::Meter => {
                let meter = Meter::default();
                let report = meter_report(meter.counts(), prefix);
                (Box::new(meter), Some(report))
            }
            Kind::Capture => {
                let folder = settings.capture_to.as_deref().unwrap_or(".".as_ref());
                let capture = CaptureModule::create(folder)?;
                let written = capture.written();
                let report = report_of(vec![(format!("{prefix}_messages"), written)]);
                (Box::new(capture), Some(report))
            }
            Kind::Fault => {
                let fault = Fault::new(settings.fault);
                let report = fault_report(fault.counts(), prefix);
                (Box::new(fault), Some(report))
            }
            Kind::Compress => {
                let compress = CompressModule::new(place.is_stream, place.is_reliable);
                let counts = compress.counts();
                let report = compress_report(counts, prefix);
                (Box::new(compress), Some(report))
            }
            Kind::Seal => {
                let no_key = || io::Error::new(io::ErrorKind::InvalidInput, "seal has no key");
                let key = settings.seal_key.clone().ok_or_else(no_key)?;
                let seal = Seal::new(key, place.is_stream, place.connects);
                (Box::new(seal), None)
            }
        })
    }
}

fn report_of(counters: Vec<(String, Arc<AtomicU64>)>) -> Report {
    Box::new(move |all| {
        let values = counters.iter();
        all.extend(values.map(|(name, count)| (name.clone(), count.load(Ordering::Relaxed))));
    })
}

fn meter_report(counts: Arc<MeterCounts>, prefix: String) -> Report {
    Box::new(move |all| {
        for (side, direction) in [(Side::Write, "sent"), (Side::Read, "received")] {
            let name = |what: &str| format!("{prefix}_{what}_{direction}");
            all.insert(name("messages"), counts.messages(side));
            all.insert(name("octets"), counts.octets(side));
        }
    })
}

fn fault_report(counts: Arc<FaultCounts>, prefix: String) -> Report {
    Box::new(move |all| {
        let values = [
            ("dropped", &counts.dropped),
            ("corrupted", &counts.corrupted),
            ("delayed", &counts.delayed),
        ];
        for (what, count) in values {
            all.insert(format!("{prefix}_{what}"), count.load(Ordering::Relaxed));
        }
    })
}

fn compress_report(counts: Arc<CompressCounts>, prefix: String) -> Report {
    Box::new(move |all| {
        let values = [
            ("octets_plain", &counts.plain),
            ("octets_sent", &counts.sent),
            ("refused", &counts.refused),
        ];
        for (what, count) in values {
            all.insert(format!("{prefix}_{what}"), count.load(Ordering::Relaxed));
        }
    })
}

fn parse_words(words: &str) -> Result<Vec<Kind>, String> {
    let modules = words.split('/').map(|word| {
        let known = KINDS.iter().find(|(name, _)| *name == word);
        known.map(|(_, kind)| *kind).ok_or_else(|| {
            let names = KINDS.map(|(name, _)| name).join(", ");
            format!("push={words}: there is no module '{word}'; there are {names}")
        })
    });
    let modules = modules.collect::<Result<Vec<Kind>, String>>()?;
    match modules.len() {
        ..=MODULES_MAX => Ok(modules),
        count => Err(format!(
            "push={words}: {count} modules; a stream takes at most {MODULES_MAX}"
        )),
    }
}

fn name_of(kind: Kind) -> &'static str {
    let found = KINDS.iter().find(|(_, other)| *other == kind);
    found.map_or("", |(name, _)| name)
}

/// Whether `name` is a module that counts.
pub(super) fn is_counting(name: &str) -> bool {
    let counting = [Kind::Meter, Kind::Capture, Kind::Fault, Kind::Compress];
    counting.into_iter().any(|kind| name_of(kind) == name)
}

fn not_pushed(name: &str, value: &str) -> String {
    let module = module_of(name);
    format!(
        "{name}={value} is an option of module {module}, which is not pushed; add push={module}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use streams::Marks;

    const PLACE: Place = Place {
        is_stream: true,
        is_reliable: true,
        connects: true,
    };

    /// Words of options, and parts of the sentence that refuses them.
    type Refused<'a> = (&'a [(&'a str, &'a str)], [&'a str; 2]);

    fn take(words: &[(&str, &str)]) -> Result<Option<ModuleStack>, String> {
        let own = words
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let mut own: BTreeMap<String, String> = own.collect();
        let taken = ModuleStack::take(&mut own);
        assert!(taken.is_err() || own.keys().all(|key| key == "nodelay"));
        taken
    }

    #[test]
    fn words_make_modules_in_their_order() {
        assert_eq!(take(&[("nodelay", "on")]), Ok(None));
        let stack = take(&[("push", "meter/buffer/meter"), ("buffer-marks", "9/3")]);
        let stack = stack.expect("valid").expect("pushed");
        assert_eq!(stack.words(), "meter/buffer/meter");
        let (modules, reports) = stack.make(PLACE).expect("no files");
        let names: Vec<&str> = modules.iter().map(|module| module.info().name).collect();
        assert_eq!(names, ["meter", "buffer", "meter"]);
        let marks = Marks::new(9, 3).expect("valid");
        assert_eq!(modules[1].info().write.marks, marks);
        let mut counts = BTreeMap::new();
        reports.iter().for_each(|report| report(&mut counts));
        assert_eq!(counts.get("meter_octets_sent"), Some(&0));
        assert_eq!(counts.get("meter2_messages_received"), Some(&0));
    }

    #[test]
    fn wrong_words_are_named_with_what_would_be_right() {
        let many = "pass/pass/pass/pass/pass/pass/pass/pass/pass/pass";
        let cases: [Refused<'_>; 18] = [
            (&[("push", "meter/metre")], ["'metre'", "buffer"]),
            (&[("push", "")], ["no module ''", "pass"]),
            (&[("push", many)], ["10 modules", "9"]),
            (&[("buffer-marks", "9/3")], ["buffer-marks", "push=buffer"]),
            (
                &[("push", "meter"), ("fault-drop", "1%")],
                ["not pushed", "push=fault"],
            ),
            (
                &[("push", "buffer"), ("buffer-marks", "3/9")],
                ["3/9", "not below"],
            ),
            (
                &[("push", "buffer"), ("buffer-marks", "9")],
                ["buffer-marks=9", "HIGH/LOW"],
            ),
            (&[("push", "fault")], ["does nothing", "fault-delay=5ms"]),
            (&[("push", "fault"), ("fault-drop", "0.1")], ["0.1", "1%"]),
            (
                &[("push", "fault"), ("fault-drop", "101%")],
                ["101%", "100%"],
            ),
            (
                &[("push", "fault"), ("fault-delay", "5")],
                ["fault-delay", "5"],
            ),
            (&[("push", "fault"), ("fault-delay", "11s")], ["11s", "10s"]),
            (
                &[("push", "fault"), ("fault-seed", "x")],
                ["fault-seed=x", "whole number"],
            ),
            (&[("push", "capture")], ["capture-to=", "FOLDER"]),
            (
                &[("push", "capture"), ("capture-to", "/nowhere")],
                ["/nowhere", "make it"],
            ),
            (&[("push", "seal")], ["seal-key=FILE", "32"]),
            (
                &[("push", "seal"), ("seal-key", "/nowhere")],
                ["seal-key=/nowhere", "No such file"],
            ),
            (
                &[("push", "seal/compress"), ("seal-key", "/proc/self/exe")],
                ["/proc/self/exe", "32 octets"],
            ),
        ];
        for (words, said) in cases {
            let why = take(words).expect_err("wrong");
            assert!(
                said.iter().all(|part| why.contains(part)),
                "{words:?}: {why}"
            );
        }
    }
}
