//! Options of SCTP: what each sets, and what is refused.

use super::*;

fn parse(words: &[(&str, &str)]) -> Result<EndpointConfig, String> {
    let own = words.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    EndpointConfig::parse(&own.collect())
}

#[test]
fn options_set_their_fields() {
    let words = [("streams", "8"), ("unordered", "on"), ("queue", "64k")];
    let settings = parse(&words).expect("all of them are known");
    assert!(!settings.is_ordered());
    assert_eq!(settings.config.outbound_streams, 8);
    assert_eq!(settings.config.receive_buffer, 64 << 10);
    assert_eq!(settings.effective()["streams"], "8");
    let words = [("scheduler", "wfq"), ("interleave", "on"), ("life", "30ms")];
    let settings = parse(&words).expect("all of them are known");
    assert!(settings.config.interleave && !settings.is_reliable());
    assert_eq!(settings.effective()["scheduler"], "wfq");
    assert_eq!(settings.effective()["life"], "30 ms");
    let settings = parse(&[("retries", "1/2/3"), ("checksum", "off")]);
    let settings = settings.expect("all of them are known");
    assert_eq!(settings.config.association_retries, 2);
    assert_eq!(settings.effective()["checksum"], "off");
}

#[test]
fn every_option_in_help_parses_with_its_values() {
    for help in EndpointConfig::HELP {
        for value in help.values.split('|') {
            let value = match value {
                "BYTES" => "8k",
                "TIME" => "200ms",
                "COUNT" => "7",
                "TEXT" => "secret",
                "PATH/ASSOC/INIT" => "5/10/8",
                word => word,
            };
            let mut words = vec![(help.name, value)];
            if ["addresses", "key"].contains(&help.name) {
                words.push(("auth", "on"));
            }
            parse(&words).unwrap_or_else(|text| panic!("{text}"));
        }
    }
}

#[test]
fn invalid_option_error_names_option_and_remedy() {
    let wrong: [(&[(&str, &str)], &str); 15] = [
        (&[("addresses", "dynamic")], "give auth=on"),
        (&[("auth", "some")], "off, on, all"),
        (&[("key", "secret")], "give auth=on"),
        (&[("congestion", "cubic")], "choose rfc9260, off"),
        (&[("packet", "100")], "from 512 to"),
        (&[("queue", "12")], "from 4096 to"),
        (&[("retries", "5")], "such as 5/10/8"),
        (&[("sack_delay", "501ms")], "at most 500ms"),
        (&[("rto_min", "10us")], "at least 1ms"),
        (&[("rto_min", "90s")], "rto_min is above rto_max"),
        (&[("streams", "2"), ("framing", "stream")], "leave streams"),
        (&[("scheduler", "lottery")], "choose fcfs, rr"),
        (&[("life", "10us")], "at least 1ms"),
        (&[("interleave", "on"), ("framing", "stream")], "interleave"),
        (&[("colour", "red")], "it has adaptation, addresses"),
    ];
    for (words, part) in wrong {
        let text = parse(words).expect_err("it is wrong");
        assert!(text.contains(part), "{text}");
    }
}
