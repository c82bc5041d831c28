//! Cells below each engine, on each wire that is available: messages arrive as without them.

use crate::support::{Subject, flush, namespace, pattern, recv_bytes, recv_one, send};
use towpath::{Options, Transport, all};

/// The ways to use cells.
const WAYS: [&str; 5] = [
    "cells=aal34",
    "cells=aal5",
    "cells=aal34,sar=study",
    "cells=aal34,interleave=4,cpcs=streaming,correct=on,frame=20",
    "cells=aal34,sar=study,repair=cells",
];

fn takes_cells(transport: &dyn Transport) -> bool {
    transport
        .options()
        .iter()
        .any(|option| option.name == "cells")
}

fn options(way: &str) -> Options {
    let pairs = way.split(',').filter_map(|part| part.split_once('='));
    let own = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Options {
        transport_specific: own.collect(),
        // Buffers for a whole run of datagrams.
        buffers: Some(1 << 20),
        ..Options::default()
    }
}

fn exchange(subject: &Subject) {
    let mut pair = subject.introduced_pair();
    for (salt, len) in [1, 88, 89, 1400, 16_384, 100_000].into_iter().enumerate() {
        let message = pattern(len, salt);
        send(&mut *pair.client, &message);
        flush(&mut *pair.client);
        let got = match subject.transport.class().stream {
            true => recv_bytes(&mut *pair.server, len),
            false => recv_one(&mut *pair.server),
        };
        assert!(got == message, "{}: {len} bytes", subject.name());
        send(&mut *pair.server, &message);
        flush(&mut *pair.server);
        let got = match subject.transport.class().stream {
            true => recv_bytes(&mut *pair.client, len),
            false => recv_one(&mut *pair.client),
        };
        assert!(got == message, "{}: {len} bytes back", subject.name());
    }
    assert!(pair.client.effective().contains_key("cells"));
    if let Some(sends) = pair.client.counts().get("shortcut_sends") {
        assert!(*sends > 0, "{}: all by UDP", subject.name());
    }
}

#[test]
fn messages_of_every_engine_arrive_through_cells() {
    let mut tested = 0;
    for way in WAYS {
        let two_ended = |one: &&dyn Transport| takes_cells(*one) && !one.is_one_to_many();
        for transport in all().iter().copied().filter(two_ended) {
            eprintln!("{} {way}", transport.name());
            let mut options = options(way);
            let has_queue = transport.options().iter().any(|own| own.name == "queue");
            if way.contains("repair") && has_queue {
                // No more packets under way than identifiers tell apart.
                let own = &mut options.transport_specific;
                own.insert("queue".to_owned(), "512k".to_owned());
            }
            let checked = transport.check_options(&options.transport_specific);
            assert_eq!(checked, Ok(()), "{} {way}", transport.name());
            if transport.name().ends_with("-ether") {
                tested += usize::from(namespace::with_veth(transport, &options, &exchange));
                continue;
            }
            match transport.available(&options) {
                Ok(()) => {
                    exchange(&Subject::new(transport, &options));
                    tested += 1;
                }
                Err(why) => eprintln!("SKIPPED: {}: {}", transport.name(), why.reason),
            }
        }
    }
    assert!(
        tested >= 6 * WAYS.len(),
        "hardly any engine is available here"
    );
}

#[test]
fn bytes_to_a_group_arrive_through_cells_at_all_of_its_members() {
    let group = towpath::find("xtp-multicast").expect("its name");
    for way in &WAYS[..4] {
        let mut options = options(way);
        let own = &mut options.transport_specific;
        own.insert("receivers".to_owned(), "3".to_owned());
        assert_eq!(group.check_options(own), Ok(()), "{way}");
        let mut pair = Subject::new(group, &options).introduced_pair();
        for (salt, len) in [1, 1400, 100_000].into_iter().enumerate() {
            let message = pattern(len, salt);
            send(&mut *pair.client, &message);
            // It delivers what all three have.
            let got = recv_bytes(&mut *pair.server, len);
            assert!(got == message, "{way}: {len} bytes");
        }
        assert!(pair.client.effective().contains_key("cells"), "{way}");
        let sent = pair.client.counts()["cells_sent"];
        assert!(sent > 102_000 / 48, "{way}: {sent} cells");
    }
}

#[test]
fn repair_of_cells_is_refused_where_there_are_several_receivers() {
    let group = towpath::find("xtp-multicast").expect("its name");
    let own = options("cells=aal34,repair=cells").transport_specific;
    let why = group.check_options(&own).expect_err("several receivers");
    assert!(
        why.contains("several receivers") && why.contains("leave repair out"),
        "{why}"
    );
}

#[test]
fn transports_without_an_engine_refuse_cells_and_say_who_takes_them() {
    let own = options("cells=aal34").transport_specific;
    for transport in all().iter().copied() {
        let fixed = ["aal34", "aal5", "vmtp-aal34"].contains(&transport.name());
        let checked = transport.check_options(&own);
        if takes_cells(transport) {
            assert_eq!(checked, Ok(()), "{}", transport.name());
        } else if !fixed {
            let why = checked.expect_err(transport.name());
            assert!(
                why.contains(transport.name()) && why.contains("cells"),
                "{why}"
            );
        }
    }
    let tcp = towpath::find("tcp").expect("its name").check_options(&own);
    let why = tcp.expect_err("no engine");
    assert!(why.contains("use cells= with bare"), "{why}");
}

#[test]
fn too_small_a_mid_window_is_refused_before_anything_is_sent() {
    let bare = towpath::find("bare").expect("its name");
    let options = options("cells=aal34,sar=study,repair=cells,mids=64");
    let error = bare.listen(&options).map(drop).expect_err("31 packets");
    let text = error.to_string();
    assert!(text.contains("MID window is too small"), "{text}");
}

#[test]
fn packet_that_the_cells_do_not_carry_is_refused_with_both_lengths() {
    let xtp = towpath::find("xtp").expect("its name");
    let own = options("cells=aal34,sar=study,packet=1472").transport_specific;
    let why = xtp.check_options(&own).expect_err("too long");
    assert!(why.contains("1472") && why.contains("1408"), "{why}");
}

#[test]
fn cells_go_through_the_rings_of_the_shortcut() {
    for way in ["cells=aal34", "cells=aal5"] {
        for name in ["xtp", "xtp-message"] {
            let options = options(&format!("shortcut=on,{way}"));
            let transport = towpath::find(name).expect("it is registered");
            let checked = transport.check_options(&options.transport_specific);
            checked.expect("they are its options");
            exchange(&Subject::new(transport, &options));
        }
    }
}
