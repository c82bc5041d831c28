//! Labels and options.

use super::*;

#[test]
fn label_sorts_option_keys() {
    for (text, label_wanted) in [
        ("tcp", "tcp"),
        ("tcp+udp", "tcp+udp"),
        (
            "tcp,nodelay=on,congestion=reno+udp,buffers=64k",
            "tcp,congestion=reno,nodelay=on+udp,buffers=64k",
        ),
    ] {
        let components = parse(text).expect("a contestant");
        assert_eq!(label(&components), label_wanted);
        let again = parse(&label(&components)).expect("its own label");
        assert_eq!(label(&again), label_wanted);
    }
}

#[test]
fn equal_contestants_are_numbered_and_parse_alike() {
    let labels = ["tcp", "udp", "tcp", "tcp"].map(str::to_owned);
    assert_eq!(numbered(&labels), ["tcp", "udp", "tcp#2", "tcp#3"]);
    for text in ["tcp#2", "tcp,nodelay=on+udp#12"] {
        let components = parse(text).expect("a contestant");
        assert_eq!(label(&components), without_number(text));
    }
    assert!(parse("tcp#two").is_err());
}

#[test]
fn component_that_sends_datagrams_is_one_way_and_may_lose() {
    for (text, is_one_way) in [("vmtp,repeat=2", true), ("vmtp", false), ("tcp", false)] {
        let component = Component::parse(text).expect("a component");
        assert_eq!(component.is_one_way(), is_one_way, "{text}");
        assert_eq!(component.class().reliable, !is_one_way, "{text}");
    }
}

#[test]
fn component_options_override_race_options() {
    let component =
        Component::parse("tcp,congestion=reno,nodelay=off,buffers=64k").expect("a component");
    let mut options = Options {
        nodelay: Some(true),
        ..Options::default()
    };
    component.apply(&mut options);
    assert_eq!(options.congestion, "reno");
    assert_eq!(options.nodelay, Some(false));
    assert_eq!(options.buffers, Some(65536));
    assert!(options.transport_specific.is_empty());
    let mut untouched = Options::default();
    Component::parse("tcp")
        .expect("a component")
        .apply(&mut untouched);
    assert_eq!(untouched, Options::default());
}

#[test]
fn program_belongs_to_the_label_and_not_to_the_job() {
    let components = parse("tcp,program=./old/towpath,nodelay=on").expect("a contestant");
    let named = label(&components);
    assert_eq!(named, "tcp,nodelay=on,program=./old/towpath");
    assert_eq!(program(&named), Some(PathBuf::from("./old/towpath")));
    assert_eq!(program("tcp#2"), None);
    assert_eq!(components[0].for_worker().to_string(), "tcp,nodelay=on");
    let mut options = Options::default();
    components[0].apply(&mut options);
    assert_eq!(options.buffers, None);
    assert!(options.transport_specific.is_empty());
}

#[test]
fn placement_belongs_to_the_label_and_not_to_the_job() {
    let components = parse("tcp,priority=-20/19,pin=0/1").expect("a contestant");
    let named = label(&components);
    assert_eq!(named, "tcp,pin=0/1,priority=-20/19");
    assert_eq!(pin(&named), Some((Some(0), Some(1))));
    assert_eq!(
        priority("tcp,priority=-20/19#2"),
        Some((Some(-20), Some(19)))
    );
    assert_eq!((pin("tcp"), priority("tcp")), (None, None));
    assert_eq!(components[0].for_worker().to_string(), "tcp");
    let why = parse("tcp,pin=0/1+udp").expect_err("two places");
    assert!(why.contains("the same pin=SENDER/RECEIVER"), "{why}");
    let why = parse("tcp,priority=30").expect_err("no nice value");
    assert!(why.starts_with("tcp: '30' is no priority"), "{why}");
}

#[test]
fn program_of_one_part_alone_is_refused() {
    let why = parse("tcp,program=./old+udp").expect_err("two programs");
    assert!(
        why.contains("give each part the same program=PATH"),
        "{why}"
    );
    let why = parse("tcp,program=").expect_err("no path");
    assert!(why.contains("program=PATH"), "{why}");
    parse("tcp,program=./old+udp,program=./old").expect("one program");
}

fn has_option(transport: &dyn Transport, name: &str) -> bool {
    transport.options().iter().any(|option| option.name == name)
}

#[test]
fn interleave_is_of_cells_as_a_number_and_of_sctp_as_a_word() {
    for text in [
        "sctp,interleave=on",
        "sctp,streams=4,interleave=on,cells=aal34",
        "sctp,cells=aal34,interleave=4",
    ] {
        Component::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    }
    let refused = Component::parse("sctp,interleave=4").map(|_| ());
    let why = refused.expect_err("there are no cells");
    assert!(why.to_string().contains("add cells=aal34"), "{why}");
}

#[test]
fn modules_are_options_of_a_component_and_change_what_it_says_of_itself() {
    let text = "tcp,buffer-marks=9/3,nodelay=on,push=meter/buffer";
    let component = Component::parse(text).expect("modules that there are");
    assert_eq!(component.to_string(), text);
    let offload = component.class().offload;
    assert!(offload.contains("stream head"), "{offload}");
    let why = Component::parse("tcp,push=metre").expect_err("no such module");
    assert!(why.contains("'metre'") && why.contains("meter"), "{why}");
}

#[test]
fn every_transport_option_parses_and_applies() {
    for transport in towpath::all() {
        for option in transport.options() {
            let first = option.values.split('|').next().expect("a value");
            let value = match first {
                "BYTES" if option.name == "packet" => "1200",
                "BYTES" => "32k",
                "TIME" => "200ms",
                "RATE" => "10mbit",
                "COUNT" => "7",
                "PATH/ASSOC/INIT" => "5/10/8",
                "HIGH/LOW" => "4096/1024",
                "direct:HEX" => "direct:0a0b",
                "iso:HEX" => "iso:49000101",
                "xns:NET.HOST.SOCKET" => "xns:1.2.3",
                "ADDR:PORT" => "10.0.0.1:9000",
                "ADDR/ADDR" => "10.0.0.1/10.0.0.2",
                "COUNT/COUNT" => "1/9",
                "N/E" => "2/2",
                "GROUP:PORT" => "239.192.1.2:20000",
                "MODULE[/MODULE]" => "meter/pass",
                "FOLDER" => ".",
                // It needs a file with a key: the conformance tests have one.
                "FILE" => continue,
                "PERCENT%" if option.name == "fault-drop" && transport.class().reliable => continue,
                "PERCENT%" => "1%",
                "NUMBER" => "7",
                other => other,
            };
            // `burst` requires `rate`, `gateway`, `managers`, `pairs` and `routes` XTP 3.6, `hold` a stream, and `key` authentication.
            let more = match option.name {
                "burst" => ",rate=1gbit",
                "gateway" | "managers" | "pairs" | "routes" => ",dialect=3.6",
                "buffer-marks" => ",push=buffer",
                "capture-to" => ",push=capture",
                "fault-seed" => ",push=fault,fault-corrupt=1%",
                name if name.starts_with("fault-") => ",push=fault",
                "hold" if has_option(*transport, "framing") => ",framing=stream",
                "key" if has_option(*transport, "auth") => ",auth=on",
                "correct" | "cpcs" | "interleave" | "mids" | "repair" | "sar" | "frame" | "mri"
                    if has_option(*transport, "cells") =>
                {
                    ",cells=aal34"
                }
                _ => "",
            };
            let text = format!("{},{}={value}{more}", transport.name(), option.name);
            let component = Component::parse(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
            let mut options = Options::default();
            component.apply(&mut options);
            assert_eq!(
                options
                    .transport_specific
                    .get(option.name)
                    .map(String::as_str),
                Some(value)
            );
        }
    }
}

#[test]
fn component_parse_error_lists_options_only_where_the_name_is_wrong() {
    for (text, words, has_list) in [
        ("tcp,", "no option ''", true),
        ("tcp,fast=on", "tcp has no option 'fast'", true),
        ("udp+tcp,x=1", "tcp has no option 'x'", true),
        (
            "tcp,congestion",
            "option 'congestion' of tcp needs a value: congestion=NAME",
            false,
        ),
        (
            "tcp,nodelay=",
            "option 'nodelay' of tcp needs a value: nodelay=on|off",
            false,
        ),
        (
            "tcp,nodelay=maybe",
            "nodelay of tcp is 'maybe', not on or off",
            false,
        ),
        ("tcp,nodelay=on,nodelay=off", "'nodelay' twice", false),
        ("tcp,buffers=big", "'big' is no size", false),
        ("tcp,buffers=0", "'0' are out of range", false),
        ("tcp,buffers=2000M", "'2000M' are out of range", false),
        ("xtp,queue=1", "queue=1 is not possible", false),
        ("tcp,cells=aal34", "tcp takes no cells", false),
        ("bare,mids=3", "add cells=aal34", false),
    ] {
        let why = parse(text).expect_err(text);
        assert!(why.contains(words), "{why}");
        let list = why.contains("tcp has quickack=off|on, rcvlowat=COUNT, congestion=NAME,");
        assert_eq!(list, has_list, "{why}");
        assert!(has_list || why.len() < 120, "{why}");
    }
    let why = parse("udp,congestion=bbr").expect_err("udp has none");
    assert!(
        why.contains("udp has no option 'congestion'; udp has buffers=BYTES"),
        "{why}"
    );
    let why = parse("null,buffers=64k").expect_err("nothing to buffer");
    assert!(why.contains("null has no options"), "{why}");
    let why = parse("tpc,congestion=bbr").expect_err("no such transport");
    assert!(why.contains("unknown transport 'tpc'"), "{why}");
}
