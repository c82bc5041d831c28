//! The options that transports under XTI have in common, and what their endpoints say of themselves.

use crate::contract::{OptionHelp, Part};
use crate::parts;
use std::collections::BTreeMap;
use std::io;
use xti::{
    Affinity, Disconnection, Flags, Hysteresis, StreamOptions, TliError, XtiEndpoint, XtiReceived,
};

const fn option(name: &'static str, values: &'static str, meaning: &'static str) -> OptionHelp {
    OptionHelp {
        name,
        values,
        meaning,
    }
}

/// The options of the stream below an endpoint.
pub(super) const OF_STREAMS: [OptionHelp; 5] = [
    option(
        "hysteresis",
        "full|wake|off",
        "a full queue takes messages again below its low mark; below its high mark, its writers woken \
         below the low one; both below the high mark",
    ),
    option(
        "deferred",
        "on|off",
        "messages leave when the queue is full, when the user waits or receives, and after 1 ms; off: \
         at the end of each call",
    ),
    option(
        "affinity",
        "any|same|other",
        "the helper runs what was put off where the kernel puts it, on the processor that queued it, or on another",
    ),
    option(
        "marks",
        "HIGH/LOW",
        "water marks of the provider's write queue, octets; 32768/0 unless set",
    ),
    option(
        "crossing",
        "off|on",
        "each call makes a system call that does nothing, as a runtime in the kernel would",
    ),
];

/// The option of sends on connections.
pub(super) const MORE: OptionHelp = option(
    "more",
    "off|on",
    "each send says T_MORE, and so is a T_DATA_REQ of its own, as in the study",
);

/// The option of sends on byte streams.
pub(super) const HOLD: OptionHelp = option(
    "hold",
    "on|off",
    "short sends are collected at the head, up to 8 KiB a message; off: each is a message of its own",
);

/// The option of connections whose runs need no copies.
pub(super) const LENT: OptionHelp = option(
    "lent",
    "on|off",
    "long messages of a run of sends are lent to the stream, and messages of a run of receives handed out where they \
     lie; off: each is copied",
);

/// The option of drivers that make their headers themselves.
pub(super) const HEADROOM: OptionHelp = option(
    "headroom",
    "off|on",
    "the driver's header goes in front of the user's octets, behind which they were copied; off: it is sent beside them",
);

/// The option of TCP's provider.
pub(super) const EXPEDITED: OptionHelp = option(
    "expedited",
    "off|on",
    "on: the provider has expedited data, for which a receive waits in a poll first; off: in the receive itself",
);

/// The option of providers that have a way without a stream.
pub(super) const STREAMS: OptionHelp = option(
    "streams",
    "on|off",
    "off: the functions of XTI straight on sockets, as a compatibility library has them; without the other options",
);

/// The option of sockets over a stream.
pub(super) const SOCKMOD: OptionHelp = option(
    "sockmod",
    "off|on",
    "the calls of a socket library over module sockmod, in place of the functions of XTI",
);

/// Values of these options.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamWords {
    pub(super) stream: StreamOptions,
    pub(super) flags: Flags,
    /// There is no stream.
    pub(super) is_plain: bool,
    /// The calls are those of a socket library.
    pub(super) has_sockmod: bool,
}

impl StreamWords {
    /// The options `own` of `transport`, which has `known`.
    /// The error is a sentence that names the option and its values.
    pub(super) fn parse(
        transport: &str,
        known: &[OptionHelp],
        own: &BTreeMap<String, String>,
    ) -> Result<StreamWords, String> {
        crate::contract::check_names(transport, known, own)?;
        let mut words = StreamWords::default();
        // A circuit has none.
        words.stream.expedited = false;
        for (name, value) in own {
            words.set(name, value)?;
        }
        let of_stream = own.keys().find(|name| *name != STREAMS.name);
        if let Some(name) = of_stream.filter(|_| words.is_plain) {
            return Err(format!(
                "streams=off has no stream for {name}; leave {name} out"
            ));
        }
        let has_affinity = words.stream.affinity != Affinity::Any;
        if has_affinity && !words.stream.deferred {
            return Err(
                "affinity says where procedures run that are put off, and deferred=off puts off none; leave one out".into(),
            );
        }
        words.stream.affinity.check()?;
        Ok(words)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value) {
            ("hysteresis", "full") => self.stream.hysteresis = Hysteresis::Full,
            ("hysteresis", "wake") => self.stream.hysteresis = Hysteresis::Wake,
            ("hysteresis", "off") => self.stream.hysteresis = Hysteresis::Off,
            ("deferred", "on" | "off") => self.stream.deferred = value == "on",
            ("affinity", "any") => self.stream.affinity = Affinity::Any,
            ("affinity", "same") => self.stream.affinity = Affinity::Same,
            ("affinity", "other") => self.stream.affinity = Affinity::Other,
            ("headroom", "on" | "off") => self.stream.headroom = value == "on",
            ("crossing", "on" | "off") => self.stream.crossing = value == "on",
            ("hold", "on" | "off") => self.stream.hold = value == "on",
            ("lent", "on" | "off") => self.stream.lent = value == "on",
            ("expedited", "on" | "off") => self.stream.expedited = value == "on",
            ("sockmod", "on" | "off") => self.has_sockmod = value == "on",
            ("streams", "on" | "off") => self.is_plain = value == "off",
            ("more", "on" | "off") => self.flags.more = value == "on",
            ("marks", _) => self.stream.marks = parse_marks(value)?,
            _ => return Err(wrong(name, value)),
        }
        Ok(())
    }
}

fn wrong(name: &str, value: &str) -> String {
    let all = || {
        OF_STREAMS.iter().chain([
            &MORE, &HOLD, &LENT, &HEADROOM, &EXPEDITED, &STREAMS, &SOCKMOD,
        ])
    };
    let values = all().find(|option| option.name == name);
    let values = values.map_or("", |option| option.values);
    format!("{name}={value}: {name} is {values}")
}

fn parse_marks(value: &str) -> Result<xti::Marks, String> {
    let parts = value.split_once('/');
    let number = |text: &str| text.parse::<usize>().ok();
    let marks = parts.and_then(|(high, low)| Some((number(high)?, number(low)?)));
    let (high, low) = marks.ok_or_else(|| wrong("marks", value))?;
    xti::Marks::new(high, low).map_err(|error| format!("marks={value}: {error}"))
}

/// The reason of a connection that was refused stands with the disconnection.
pub(super) fn connect_error(end: &XtiEndpoint, error: xti::Error) -> io::Error {
    refused(error, end.receive_disconnect())
}

/// The error of a connect, and what t_rcvdis says then.
pub(super) fn refused(
    error: xti::Error,
    disconnection: Result<Disconnection, xti::Error>,
) -> io::Error {
    match (error.tli, disconnection) {
        (TliError::Look, Ok(disconnection)) => io::Error::from_raw_os_error(disconnection.reason),
        (TliError::NoData, _) => {
            let text = "the listener did not answer in 10 seconds";
            io::Error::new(io::ErrorKind::TimedOut, text)
        }
        _ => error.into(),
    }
}

/// How the stream of an endpoint was made.
pub(super) fn effective(end: &XtiEndpoint, into: &mut BTreeMap<String, String>) {
    let options = end.options();
    let marks = format!("{}/{}", options.marks.high(), options.marks.low());
    into.insert("marks".into(), marks);
    into.insert("deferred".into(), on_off(options.deferred));
    let affinity = match options.affinity {
        Affinity::Any => return,
        Affinity::Same => "same",
        Affinity::Other => "other",
    };
    into.insert("affinity".into(), affinity.into());
}

/// The rings of an endpoint, one each way.
pub(super) fn ring_sizes(octets: u64, into: &mut BTreeMap<String, String>) {
    for name in ["send_buffer", "receive_buffer"] {
        into.insert(name.into(), octets.to_string());
    }
}

/// What an endpoint counted.
pub(super) fn counts(end: &XtiEndpoint) -> BTreeMap<String, u64> {
    let mut counts = parts::call_counts((end.kernel_sends(), end.kernel_receives()));
    counts.insert("waits".into(), end.waits());
    if end.options().affinity != Affinity::Any {
        let (same, other) = end.helped();
        counts.insert("helped_same".into(), same);
        counts.insert("helped_other".into(), other);
    }
    counts
}

/// What a receive of a datagram brought.
pub(super) fn part(received: XtiReceived) -> Option<Part> {
    Some(Part {
        end: !received.more,
        ..Part::of_stream(received.len)
    })
}

/// The connection that arrived at a listening endpoint.
pub(super) fn arrived<C>(call: Result<C, xti::Error>) -> io::Result<C> {
    match call {
        Err(error) if error.tli == TliError::NoData => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "no peer connected"))
        }
        call => Ok(call?),
    }
}

/// A switch as its word.
pub(super) fn on_off(value: bool) -> String {
    if value { "on" } else { "off" }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_stream_there_are_no_options_of_one() {
        let transport = crate::find("xti-tcp").expect("it is registered");
        let words = |text: &str| -> BTreeMap<String, String> {
            let pairs = text.split(',').filter_map(|word| word.split_once('='));
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect()
        };
        assert_eq!(transport.check_options(&words("streams=off")), Ok(()));
        assert_eq!(
            transport.check_options(&words("streams=on,hold=off")),
            Ok(())
        );
        let why = transport.check_options(&words("affinity=same,deferred=off"));
        assert!(why.is_err_and(|why| why.contains("leave one out")));
        let why = transport.check_options(&words("hold=off,streams=off"));
        assert!(why.is_err_and(|why| why.contains("leave hold out")));
    }
}
