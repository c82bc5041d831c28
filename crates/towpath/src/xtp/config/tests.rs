//! Options of an endpoint: what is taken, refused and reported.

use super::*;

fn parse(words: &[(&str, &str)]) -> Result<EndpointConfig, String> {
    let own = words.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    EndpointConfig::parse(&own.collect())
}

#[test]
fn options_set_their_fields() {
    let settings = parse(&[("checksum", "on"), ("queue", "32k"), ("error", "gbn")]);
    let settings = settings.expect("all of them are known");
    assert!(settings.config.checksum);
    assert_eq!(settings.config.window, 32 << 10);
    assert_eq!(settings.send_buffer_len, 32 << 10);
    assert_eq!(settings.config.error, ErrorControl::GoBackN);
    assert_eq!(settings.effective()["error"], "gbn");
    let settings = parse(&[("rate", "100mbit"), ("burst", "16k"), ("sort", "3")]);
    let settings = settings.expect("all of them are known");
    let limit = settings.config.rate.expect("a rate was given");
    assert_eq!(
        (limit.rate_bytes_per_s, limit.burst_bytes),
        (12_500_000, 16 << 10)
    );
    assert_eq!(settings.effective()["rate"], "100000000 bit/s");
    assert_eq!(settings.config.sort, Some(3));
    let settings = parse(&[("queue", "study"), ("rtt", "80ms"), ("retrycount", "3")]);
    let settings = settings.expect("all of them are known");
    assert_eq!(
        (settings.config.window, settings.send_buffer_len),
        (16384, 16384)
    );
    assert_eq!(
        settings.config.initial_rtt,
        Some(std::time::Duration::from_millis(80))
    );
    assert_eq!(settings.config.retries_max, 3);
}

#[test]
fn rates_flow_routes_and_pairs_set_their_fields() {
    let settings = parse(&[
        ("rate", "100mbit"),
        ("output_rate", "10mbit"),
        ("burst", "16k"),
    ]);
    let config = settings.expect("all of them are known").config;
    let rate = |limit: Option<engine_xtp::RateLimit>| limit.map(|limit| limit.rate_bytes_per_s);
    assert_eq!(rate(config.own_rate()), Some(1_250_000));
    assert_eq!(rate(config.imposed_rate()), Some(12_500_000));
    let settings = parse(&[("input_rate", "10mbit"), ("flow", "reservation")]);
    let settings = settings.expect("all of them are known");
    assert_eq!(rate(settings.config.own_rate()), None);
    assert_eq!(settings.effective()["input_rate"], "10000000 bit/s");
    assert_eq!(settings.effective()["flow"], "reservation");
    assert!(
        settings.buffer_posting().is_some(),
        "a reservation is posted"
    );
    let settings = parse(&[("dialect", "3.6"), ("routes", "on"), ("pairs", "fixed")]);
    let config = settings.expect("all of them are known").config;
    assert!(config.routes && config.fixed_pairs);
}

#[test]
fn address_is_shown_and_not_for_routers() {
    let settings = parse(&[("address", "xns:1.020000000002.451")]).expect("it is known");
    let shown = &settings.effective()["address"];
    assert_eq!(shown, "xns:00000001.020000000002.0451");
    let routed = [
        ("address", "iso:49000101"),
        ("dialect", "3.6"),
        ("gateway", "10.0.0.1:9000"),
    ];
    let text = parse(&routed).expect_err("routers go by other addresses");
    assert!(text.contains("leave out gateway or address"), "{text}");
}

#[test]
fn congestion_words_of_earlier_versions_are_aliases() {
    for (alias, name, class) in [
        ("loss", "newreno", "NewReno"),
        ("delay", "ledbat", "LEDBAT-like"),
        ("rate", "bbr", "BBR"),
    ] {
        for word in [alias, name] {
            let settings = parse(&[("congestion", word)]).expect("a known word");
            assert_eq!(settings.effective()["congestion"], name);
            assert_eq!(settings.congestion_class(), class);
        }
    }
}

#[test]
fn every_option_in_help_parses_with_its_values() {
    for help in EndpointConfig::HELP {
        for value in help.values.split('|') {
            let value = match value {
                "BYTES" => "8k",
                "TIME" => "200ms",
                "RATE" => "10mbit",
                "COUNT" => "7",
                "ADDR:PORT" => "10.0.0.1:9000",
                "ADDR/ADDR" => "10.0.0.1/::1",
                "DIRECTORY" => "/run/towpath",
                "direct:HEX" => "direct:0a0b",
                "iso:HEX" => "iso:49000101",
                "xns:NET.HOST.SOCKET" => "xns:1.2.3",
                word => word,
            };
            let more = match help.name {
                "gateway" | "managers" | "pairs" | "routes" => ("dialect", "3.6"),
                _ => ("rate", "1gbit"),
            };
            let both = [(help.name, value), more];
            let needs_more = ["burst", "gateway", "managers", "pairs", "routes"]
                .contains(&help.name)
                || value == "isochronous";
            parse(if needs_more { &both } else { &both[..1] })
                .unwrap_or_else(|text| panic!("{text}"));
        }
    }
}

#[test]
fn invalid_option_error_names_option_and_remedy() {
    let wrong = [
        (("error", "maybe"), "choose selective, gbn, none"),
        (("congestion", "cubic"), "choose off, newreno, ledbat, bbr"),
        (("queue", "12"), "from 4096 to 67108864"),
        (("queue", "99999999999999999999k"), "queue=9999"),
        (("packet", "1472x"), "packet=1472x"),
        (
            ("colour", "red"),
            "it has accept_early, address, ask, burst, checksum",
        ),
        (("address", "ipx:1.2.3"), "such as direct:0a0b"),
        (("rate", "100"), "such as 100mbit"),
        (("rate", "99999999gbit"), "8bit to 34gbit"),
        (("burst", "8k"), "burst needs a rate"),
        (("gateway", "here"), "such as 10.0.0.1:9000"),
        (("gateway", "10.0.0.1:9000"), "gateway needs dialect=3.6"),
        (("routes", "on"), "add dialect=3.6"),
        (("managers", "10.0.0.5"), "add dialect=3.6"),
        (("managers", "me"), "give addresses"),
        (("pairs", "fixed"), "add dialect=3.6"),
        (("open", "late"), "choose explicit, implicit"),
        (("flow", "on"), "choose allocation, reservation, off"),
        (("wtimer", "2h"), "us, ms or s"),
        (("wtimer", "99us"), "at least 100us"),
        (("wtimer", "0s"), "at least 100us"),
        (("ctimer", "999us"), "at least 1000us"),
        (("service", "isochronous"), "add rate=100mbit"),
        (("retrycount", "0"), "from 1 to 1000"),
        (("sort", "-1"), "from 0 to 65535"),
        (("shortcut", "maybe"), "choose off, on, or the whole path"),
    ];
    for (word, part) in wrong {
        let text = parse(&[word]).expect_err("it is wrong");
        assert!(text.contains(part), "{text}");
    }
}
