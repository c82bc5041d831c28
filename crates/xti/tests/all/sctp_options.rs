//! Options of level 132, of endpoints and of single messages, over a carrier whose peer takes everything.

use crate::fuzz::targets::Peer;
use crate::kit::loopback;
use xti::sctp::name;
use xti::tpi::{ALL_OPTIONS, OptionStatus, OptionsAction, TransportOption, level};
use xti::{Error, Flags, StreamOptions, TliError, XtiEndpoint};

use OptionStatus::{Failure, NotSupported, ReadOnly, Success};
use OptionsAction::{Check, Current, Default as Defaults, Negotiate};

fn option(name: u32, value: &[u8]) -> TransportOption {
    TransportOption {
        level: level::INET_SCTP,
        name,
        status: None,
        value: value.to_vec(),
    }
}

fn number(name: u32, value: u32) -> TransportOption {
    option(name, &value.to_ne_bytes())
}

fn open() -> XtiEndpoint {
    XtiEndpoint::open_over(Box::new(Peer::default()), StreamOptions::default()).unwrap()
}

fn connected() -> XtiEndpoint {
    let end = open();
    end.bind(&[], 0).unwrap();
    end.start_connect(&loopback()).unwrap();
    end.receive_connect().unwrap();
    end
}

/// Status and value of one option.
fn ask(
    end: &XtiEndpoint,
    action: OptionsAction,
    option: TransportOption,
) -> (OptionStatus, Vec<u8>) {
    let (options, worst) = end.manage_options(&[option], action).unwrap();
    let [answer] = &options[..] else {
        panic!("{} answers", options.len())
    };
    assert_eq!(answer.status, Some(worst));
    (worst, answer.value.clone())
}

fn refused<T>(result: Result<T, Error>) -> TliError {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.tli,
    }
}

#[test]
fn options_of_an_association_are_set_before_it_and_read_only_then() {
    let end = open();
    let bytes = |value: u32| value.to_ne_bytes().to_vec();
    let wanted = number(name::RTO_MIN, 700);
    assert_eq!(ask(&end, Negotiate, wanted.clone()), (Success, bytes(700)));
    assert_eq!(
        ask(&end, Current, option(name::RTO_MIN, &[])),
        (Success, bytes(700))
    );
    assert_eq!(
        ask(&end, Defaults, option(name::RTO_MIN, &[])),
        (Success, bytes(200))
    );
    // What is checked is not taken; a negotiation without a value takes the default.
    assert_eq!(ask(&end, Check, number(name::RTO_MIN, 900)).0, Success);
    assert_eq!(ask(&end, Current, option(name::RTO_MIN, &[])).1, bytes(700));
    assert_eq!(
        ask(&end, Negotiate, option(name::RTO_MIN, &[])),
        (Success, bytes(200))
    );

    let end = connected();
    let after = ask(&end, Negotiate, number(name::RTO_MIN, 900));
    assert_eq!(after, (ReadOnly, bytes(200)));
    // What messages say may change at any time.
    assert_eq!(ask(&end, Negotiate, number(name::SID, 3)).0, Success);
    assert_eq!(ask(&end, Current, option(name::SID, &[])).1, bytes(3));
}

#[test]
fn values_out_of_bounds_and_unknown_options_have_their_status() {
    let end = open();
    let refused_values = [
        number(name::SACK_DELAY, 501),
        number(name::NODELAY, 2),
        number(name::OSTREAMS, 0),
        number(name::SID, 65_535),
        // Above RTO_MAX; not a number; larger than a word.
        number(name::RTO_MIN, 70_000),
        option(name::PPI, &[1, 2, 3]),
        option(name::PPI, &(1u64 << 32).to_ne_bytes()),
    ];
    for wanted in refused_values {
        for action in [Check, Negotiate] {
            assert_eq!(ask(&end, action, wanted.clone()).0, Failure, "{wanted:?}");
        }
        let unchanged = [Current, Defaults].map(|action| {
            let asked = option(wanted.name, &[]);
            ask(&end, action, asked).1
        });
        assert_eq!(unchanged[0], unchanged[1], "{wanted:?}");
    }
    // T_SCTP_SSN, T_SCTP_ECN and one that the study's driver does not have.
    for unknown in [5, 23, 99] {
        assert_eq!(ask(&end, Current, option(unknown, &[])).0, NotSupported);
    }
    let maxseg = ask(&end, Negotiate, number(name::MAXSEG, 9));
    assert_eq!(maxseg, (ReadOnly, 1172u32.to_ne_bytes().to_vec()));
    // A stream that the association does not have.
    let end = connected();
    assert_eq!(ask(&end, Negotiate, number(name::SID, 4)).0, Failure);
}

#[test]
fn all_options_of_the_level_are_answered_together() {
    let end = open();
    let all = option(ALL_OPTIONS, &[]);
    let (options, worst) = end.manage_options(&[all], Current).unwrap();
    assert_eq!((options.len(), worst), (21, ReadOnly));
    // Bounds of the timeout are taken together, whatever their order.
    let both = [number(name::RTO_MIN, 90_000), number(name::RTO_MAX, 95_000)];
    assert_eq!(end.manage_options(&both, Negotiate).unwrap().1, Success);
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn heartbeats_and_timeouts_of_all_paths_are_structures() {
    let end = open();
    let current = |name| ask(&end, Current, option(name, &[])).1;
    let before = words(&[0, 1, 30_000]);
    let on = ask(&end, Negotiate, option(name::HB, &before));
    assert_eq!(on, (Success, before.clone()));
    // A path that there is not, neither on nor off, on without an interval, a word too many, octets that are no word.
    let wrong: [&[u32]; 4] = [&[9, 1, 5], &[0, 2, 5], &[0, 1, 0], &[0, 1, 5, 0]];
    for value in wrong.map(words).into_iter().chain([vec![0; 11]]) {
        assert_eq!(
            ask(&end, Negotiate, option(name::HB, &value)).0,
            Failure,
            "{value:?}"
        );
    }
    assert_eq!(current(name::HB), before);
    let off = option(name::HB, &words(&[0, 0, 7]));
    assert_eq!(ask(&end, Negotiate, off), (Success, words(&[0, 0, 0])));
    assert_eq!(current(name::HEARTBEAT_ITVL), words(&[0]));

    let timeouts = words(&[0, 500, 400, 900, 3]);
    let wanted = option(name::RTO, &timeouts);
    assert_eq!(
        ask(&end, Check, wanted.clone()),
        (Success, timeouts.clone())
    );
    assert_ne!(current(name::RTO), timeouts);
    assert_eq!(ask(&end, Negotiate, wanted), (Success, timeouts));
    assert_eq!(current(name::RTO_MIN), words(&[400]));
    assert_eq!(current(name::PATH_MAX_RETRANS), words(&[3]));
    // The bounds are not in order.
    let wrong = option(name::RTO, &words(&[0, 500, 901, 900, 3]));
    assert_eq!(ask(&end, Negotiate, wrong).0, Failure);
    assert_eq!(current(name::RTO_MIN), words(&[400]));
    // An engine runs, and all of it is as it was made.
    let end = connected();
    let wanted = option(name::RTO, &words(&[0, 500, 400, 900, 3]));
    assert_eq!(ask(&end, Negotiate, wanted).0, ReadOnly);
}

/// A path of the association is named by its address; another, or all of them, while an engine runs, are not changed.
#[test]
fn heartbeats_and_timeouts_of_one_path_are_structures_too() {
    let end = connected();
    let address = u32::from_ne_bytes([127, 0, 0, 1]);
    let hb = |rest: [u32; 2]| option(name::HB, &words(&[address, rest[0], rest[1]]));
    let rto = |rest: [u32; 4]| option(name::RTO, &words(&[&[address][..], &rest].concat()));
    let current = |name| ask(&end, Current, option(name, &words(&[address]))).1;
    assert_eq!(ask(&end, Check, hb([1, 700])).0, Success);
    assert_eq!(current(name::HB), words(&[address, 0, 0]));
    assert_eq!(
        ask(&end, Negotiate, hb([1, 700])),
        (Success, hb([1, 700]).value)
    );
    let wanted = rto([500, 400, 900, 3]);
    assert_eq!(
        ask(&end, Negotiate, wanted.clone()),
        (Success, wanted.value.clone())
    );
    assert_eq!(
        (current(name::HB), current(name::RTO)),
        (hb([1, 700]).value, wanted.value.clone())
    );

    // Out of order, or of bounds, or no path: as it was.
    let nobody = option(name::HB, &words(&[9, 1, 5]));
    for wrong in [
        rto([500, 901, 900, 3]),
        rto([901, 400, 900, 3]),
        rto([0, 0, 0, 0]),
        hb([2, 5]),
        nobody,
    ] {
        assert_eq!(ask(&end, Negotiate, wrong.clone()), (Failure, wrong.value));
    }
    assert_eq!(current(name::RTO), wanted.value);
    // Both in one request are taken together, or neither.
    let both = [hb([0, 0]), rto([500, 901, 900, 3])];
    assert_eq!(end.manage_options(&both, Negotiate).unwrap().1, Failure);
    assert_eq!(current(name::HB), hb([1, 700]).value);
    let both = [hb([0, 0]), rto([600, 500, 1000, 3])];
    assert_eq!(end.manage_options(&both, Negotiate).unwrap().1, Success);
    assert_eq!(
        (current(name::HB), current(name::RTO)),
        (hb([0, 0]).value, both[1].value.clone())
    );
    // The defaults of a path are those of its endpoint, and all paths are as their engine was made.
    assert_eq!(
        ask(&end, Defaults, rto([0; 4])).1,
        words(&[address, 1000, 200, 60_000, 0])
    );
    assert_eq!(
        ask(&end, Negotiate, option(name::HB, &words(&[0, 1, 5]))).0,
        ReadOnly
    );
}

#[test]
fn status_tells_of_each_path() {
    assert_eq!(
        ask(&open(), Current, option(name::STATUS, &[])),
        (ReadOnly, words(&[0, 0, 0]))
    );
    let address = u32::from_ne_bytes([127, 0, 0, 1]);
    let expected = words(&[1000, 2000, 1, address, 4380, 100, 3, 1, 200, !0 - 2]);
    let end = connected();
    assert_eq!(
        ask(&end, Current, option(name::STATUS, &[])),
        (ReadOnly, expected.clone())
    );
    assert_eq!(
        ask(&end, Negotiate, option(name::STATUS, &words(&[1]))),
        (ReadOnly, expected)
    );
}

#[test]
fn message_has_options_of_its_own() {
    let end = connected();
    let send = |options: &[TransportOption]| end.try_send_with(b"abc", Flags::default(), options);
    assert_eq!(send(&[number(name::SID, 3), number(name::PPI, 7)]), Ok(3));
    assert_eq!(refused(send(&[number(name::SID, 4)])), TliError::BadOption);
    assert_eq!(
        refused(send(&[number(name::RTO_MIN, 4)])),
        TliError::BadOption
    );
    assert_eq!(
        refused(send(&[option(name::PPI, &[])])),
        TliError::BadOption
    );
    // The stub's peer asserts that no wrong one came to it.
    end.run();
    assert_eq!(end.look(), None);
}
