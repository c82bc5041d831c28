//! Options of endpoints: what is taken, checked, refused, and what the socket has then.

use crate::kit::{LIMIT, deadline, listener, loopback, open, option, pair};
use std::sync::Arc;
use xti::tpi::{ALL_OPTIONS, OptionStatus, OptionsAction, TransportOption, level, name};
use xti::{StreamOptions, TliError, With, XtiEndpoint, XtiState, inet};

use OptionStatus::{Failure, NotSupported, PartSuccess, ReadOnly, Success};
use OptionsAction::{Check, Current, Default as Defaults, Negotiate};

fn word(value: u32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

/// Status and value of one option.
fn ask(
    end: &XtiEndpoint,
    action: OptionsAction,
    option: TransportOption,
) -> (OptionStatus, Vec<u8>) {
    let (mut options, worst) = end.manage_options(&[option], action).unwrap();
    let answer = options.remove(0);
    assert!(options.is_empty());
    assert_eq!(answer.status, Some(worst));
    (worst, answer.value)
}

/// Each option that can be set, with a value that is not the default.
fn settable() -> Vec<TransportOption> {
    let pair = |first, second| [word(first), word(second)].concat();
    vec![
        option(level::XTI_GENERIC, name::LINGER, &pair(1, 3)),
        option(level::XTI_GENERIC, name::SNDBUF, &word(40_000)),
        option(level::XTI_GENERIC, name::RCVBUF, &word(50_000)),
        option(level::INET_TCP, name::NODELAY, &word(1)),
        option(level::INET_TCP, name::KEEPALIVE, &pair(1, 9)),
        option(level::INET_IP, name::TOS, &word(0x10)),
        option(level::INET_IP, name::TTL, &word(33)),
        option(level::INET_IP, name::REUSEADDR, &word(1)),
    ]
}

#[test]
fn option_set_before_the_socket_exists_is_that_of_the_connection() {
    let (listener, address) = listener(1);
    let client = open(StreamOptions::default());
    for wanted in settable() {
        let taken = ask(&client, Negotiate, wanted.clone());
        assert_eq!(taken, (Success, wanted.value));
    }
    assert_eq!(client.state(), XtiState::Unbound);
    client.bind(&[], 0).unwrap();
    client.connect(&address, deadline()).unwrap();
    listener.listen(deadline()).unwrap();
    for wanted in settable() {
        let asked = option(wanted.level, wanted.name, &[]);
        assert_eq!(ask(&client, Current, asked), (Success, wanted.value));
    }
    let socket = client.socket().unwrap();
    assert!(socket.tcp_nodelay().unwrap());
    assert_eq!(socket.ttl_v4().unwrap(), 33);
    assert_eq!(socket.send_buffer_size().unwrap(), 80_000, "doubled");
    assert_eq!(client.state(), XtiState::DataTransfer);
}

#[test]
fn option_set_on_a_connection_and_on_the_accepting_end_reaches_its_socket() {
    let (client, server) = pair(StreamOptions::default());
    let nodelay = option(level::INET_TCP, name::NODELAY, &word(1));
    for end in [&client, &server] {
        assert!(!end.socket().unwrap().tcp_nodelay().unwrap());
        ask(end, Negotiate, nodelay.clone());
        assert!(end.socket().unwrap().tcp_nodelay().unwrap());
        assert_eq!(end.sync(), Ok(XtiState::DataTransfer));
    }
    let (listener, address) = listener(1);
    let (client, server) = (
        open(StreamOptions::default()),
        open(StreamOptions::default()),
    );
    ask(&server, Negotiate, nodelay.clone());
    client.bind(&[], 0).unwrap();
    client.connect(&address, deadline()).unwrap();
    let call = listener.listen(deadline()).unwrap();
    let asked = option(level::INET_TCP, name::NODELAY, &[]);
    assert_eq!(ask(&listener, Current, asked.clone()), (Success, word(0)));
    assert_eq!(listener.sync(), Ok(XtiState::Incoming));
    listener.accept(&server, call.sequence).unwrap();
    assert_eq!(ask(&server, Current, asked), (Success, word(1)));
    assert!(server.socket().unwrap().tcp_nodelay().unwrap());
}

#[test]
fn check_and_default_change_nothing() {
    let (client, _server) = pair(StreamOptions::default());
    for wanted in settable() {
        let asked = option(wanted.level, wanted.name, &[]);
        let before = ask(&client, Current, asked.clone());
        assert_eq!(ask(&client, Check, asked.clone()), (Success, vec![]));
        let checked = ask(&client, Check, wanted.clone());
        assert_eq!(checked, (Success, wanted.value.clone()));
        assert_eq!(ask(&client, Current, asked.clone()), before);
        let default = ask(&client, Defaults, asked.clone());
        ask(&client, Negotiate, wanted.clone());
        assert_eq!(ask(&client, Defaults, asked.clone()), default);
        assert_eq!(ask(&client, Current, asked), (Success, wanted.value));
    }
}

#[test]
fn all_options_are_those_of_the_level_and_go_back_to_their_defaults() {
    for connected in [false, true] {
        let (client, _server) = pair(StreamOptions::default());
        let end = if connected {
            client
        } else {
            open(StreamOptions::default())
        };
        let all = [option(level::INET_TCP, ALL_OPTIONS, &[])];
        let (before, worst) = end.manage_options(&all, Current).unwrap();
        assert_eq!(worst, ReadOnly, "one of them");
        let names: Vec<_> = before.iter().map(|option| option.name).collect();
        assert_eq!(names, [name::NODELAY, name::MAXSEG, name::KEEPALIVE]);
        ask(
            &end,
            Negotiate,
            option(level::INET_TCP, name::NODELAY, &word(1)),
        );
        assert_ne!(end.manage_options(&all, Current).unwrap().0, before);
        end.manage_options(&all, Negotiate).unwrap();
        assert_eq!(end.manage_options(&all, Current).unwrap().0, before);
    }
}

#[test]
fn status_of_a_call_is_the_worst_of_its_options() {
    let end = open(StreamOptions::default());
    let tcp = |name, value: &[u8]| option(level::INET_TCP, name, value);
    let (nodelay, failing) = (tcp(name::NODELAY, &word(1)), tcp(name::NODELAY, &word(7)));
    let (read_only, unknown) = (tcp(name::MAXSEG, &word(9)), tcp(99, &word(1)));
    let asked = [&nodelay, &failing, &read_only, &unknown];
    let statuses = [Success, Failure, ReadOnly, NotSupported];
    for len in 1..=4 {
        let options: Vec<_> = asked[..len].iter().copied().cloned().collect();
        let (answers, worst) = end.manage_options(&options, Negotiate).unwrap();
        let found: Vec<_> = answers.iter().filter_map(|answer| answer.status).collect();
        assert_eq!(found, statuses[..len]);
        assert_eq!(worst, statuses[len - 1]);
    }
    let wrong_len = tcp(name::NODELAY, &[1, 2, 3]);
    assert_eq!(ask(&end, Negotiate, wrong_len), (Failure, vec![1, 2, 3]));
    let nowhere = option(4711, ALL_OPTIONS, &[]);
    assert_eq!(ask(&end, Current, nowhere), (NotSupported, vec![]));
}

#[test]
fn buffer_is_answered_in_the_octets_of_the_question_and_part_of_it_is_said() {
    let end = open(StreamOptions::default());
    let buffer = |value: &[u8]| option(level::XTI_GENERIC, name::SNDBUF, value);
    let long = 60_001_u64.to_ne_bytes();
    assert_eq!(ask(&end, Negotiate, buffer(&long)), (Success, long.into()));
    assert_eq!(ask(&end, Current, buffer(&long)), (Success, long.into()));
    let (status, value) = ask(&end, Negotiate, buffer(&word(1)));
    assert_eq!(status, PartSuccess, "the kernel has a least size");
    assert!(u32::from_ne_bytes(value.try_into().unwrap()) > 1);
    let huge = (1_u64 << 32).to_ne_bytes();
    assert_eq!(ask(&end, Negotiate, buffer(&huge)).0, Failure);
}

#[test]
fn request_without_options_or_of_several_levels_is_refused() {
    let end = open(StreamOptions::default());
    let nodelay = option(level::INET_TCP, name::NODELAY, &[]);
    let ttl = option(level::INET_IP, name::TTL, &[]);
    let all = option(level::INET_TCP, ALL_OPTIONS, &[]);
    let bad = [
        (vec![], Current),
        (vec![nodelay.clone(), ttl], Current),
        (vec![all.clone(), nodelay.clone()], Current),
        (vec![all], Check),
        (vec![nodelay; 33], Current),
    ];
    for (options, action) in bad {
        let refused = end.manage_options(&options, action);
        assert_eq!(refused.unwrap_err().tli, TliError::BadOption, "{options:?}");
        assert_eq!(end.state(), XtiState::Unbound);
    }
}

#[test]
fn datagrams_have_their_own_options() {
    let setup: inet::Setup = Arc::new(|_| Ok(()));
    let end = XtiEndpoint::open_udp(setup, StreamOptions::default()).unwrap();
    let broadcast = option(level::INET_IP, name::BROADCAST, &word(1));
    assert_eq!(ask(&end, Negotiate, broadcast.clone()), (Success, word(1)));
    let nodelay = option(level::INET_TCP, name::NODELAY, &word(1));
    assert_eq!(ask(&end, Negotiate, nodelay).0, NotSupported);
    end.bind(&loopback(), 0).unwrap();
    assert!(end.socket().unwrap().broadcast().unwrap());
    let off = option(level::INET_IP, name::BROADCAST, &word(0));
    assert_eq!(ask(&end, Negotiate, off), (Success, word(0)));
    assert!(!end.socket().unwrap().broadcast().unwrap());
    assert_eq!(end.sync(), Ok(XtiState::Idle));
}

#[test]
fn options_of_an_accept_on_the_listener_itself_are_those_of_its_socket() {
    let (listener, address) = listener(1);
    let client = open(StreamOptions::default());
    client.bind(&[], 0).unwrap();
    client.connect(&address, deadline()).unwrap();
    let call = listener.listen(deadline()).unwrap();
    let with = |options| With {
        options,
        user_data: &[],
    };
    let all = [option(level::INET_TCP, ALL_OPTIONS, &[])];
    let refused = listener.accept_here_with(call.sequence, with(&all));
    assert_eq!(refused.unwrap_err().tli, TliError::BadOption);
    let said = With {
        user_data: b"data",
        options: &[],
    };
    let refused = listener.accept_here_with(call.sequence, said);
    assert_eq!(refused.unwrap_err().tli, TliError::BadData);
    let own = [option(level::INET_TCP, name::NODELAY, &word(1))];
    listener
        .accept_here_with(call.sequence, with(&own))
        .unwrap();
    assert!(listener.socket().unwrap().tcp_nodelay().unwrap());
}

#[test]
fn options_of_one_connect_and_of_one_accept_are_those_of_their_sockets() {
    let (listener, address) = listener(2);
    let asked = [
        option(level::INET_TCP, name::NODELAY, &word(1)),
        option(level::INET_IP, name::TOS, &word(16)),
        option(level::INET_TCP, 99, &word(1)),
    ];
    let with = |options| With {
        options,
        user_data: &[],
    };
    let client = open(StreamOptions::default());
    client.bind(&[], 0).unwrap();
    client.start_connect_with(&address, with(&asked)).unwrap();
    let server = open(StreamOptions::default());
    let call = listener.listen(deadline()).unwrap();
    let response = with(&asked[..1]);
    listener
        .accept_with(&server, call.sequence, response)
        .unwrap();
    let answer = loop {
        match client.receive_connect_call() {
            Err(error) if error.tli == TliError::NoData => client.wait(true, LIMIT).unwrap(),
            answer => break answer.unwrap(),
        }
    };
    let statuses: Vec<_> = answer.options.iter().map(|option| option.status).collect();
    assert_eq!(
        statuses,
        [
            Some(OptionStatus::Success),
            Some(OptionStatus::Success),
            Some(OptionStatus::NotSupported)
        ]
    );
    assert!(client.socket().unwrap().tcp_nodelay().unwrap());
    assert_eq!(client.socket().unwrap().tos_v4().unwrap(), 16);
    server.look();
    assert!(server.socket().unwrap().tcp_nodelay().unwrap());
    let next = open(StreamOptions::default());
    next.bind(&[], 0).unwrap();
    let all = [option(level::INET_TCP, ALL_OPTIONS, &[])];
    let refused = next.start_connect_with(&address, with(&all));
    assert_eq!(refused.unwrap_err().tli, TliError::BadOption);
    next.connect(&address, deadline()).unwrap();
    assert!(
        !next.socket().unwrap().tcp_nodelay().unwrap(),
        "it asked for none"
    );
}
