//! XTP's congestion controllers on lossy paths and on shared links.

use scenario::{RunOutcome, parse, run};

/// Mbit/s of user bytes received for each circuit, in the order of their senders.
fn mbps(text: &str) -> Vec<f64> {
    let scenario = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let outcome: RunOutcome = run(&scenario, &[], 1, |_| {}).expect("it builds");
    let mut circuits: Vec<(usize, f64)> = outcome
        .circuits
        .iter()
        .map(|circuit| {
            let receiver = &circuit.receivers[0];
            assert_eq!((receiver.gaps, receiver.wrong_bytes), (0, 0));
            let bits = receiver.bytes as f64 * 8.0;
            (circuit.from, bits / outcome.elapsed_s / 1e6)
        })
        .collect();
    circuits.sort_by_key(|circuit| circuit.0);
    circuits.into_iter().map(|circuit| circuit.1).collect()
}

/// Bulk senders of XTP with these controllers through one link of a switch, for `span_s`.
fn shared(controllers: &[&str], rate: &str, loss: &str, span_s: u32) -> Vec<f64> {
    shared_by("xtp", controllers, rate, loss, span_s)
}

fn shared_by(
    protocol: &str,
    controllers: &[&str],
    rate: &str,
    loss: &str,
    span_s: u32,
) -> Vec<f64> {
    let stations: String = controllers
        .iter()
        .chain(&["off"])
        .map(|kind| {
            format!(
                "[[station]]\nengine = {{ protocol = \"{protocol}\", congestion = \"{kind}\", \
                 window = \"4 MiB\" }}\n"
            )
        })
        .collect();
    let receiver = controllers.len();
    let traffic: String = (0..receiver)
        .map(|sender| {
            format!(
                "[[traffic]]\nfrom = [{sender}]\nto = [{receiver}]\nlength = {{ fixed = 16384 }}\n\
                 interarrival = {{ fixed = \"100 us\" }}\noutstanding = 240\n"
            )
        })
        .collect();
    mbps(&format!(
        "time_limit = \"{span_s} s\"\n[medium]\nkind = \"switch\"\nrate = \"{rate}\"\n\
         delay = \"10 ms\"\nqueue = \"488 KiB\"\n[faults]\nloss = \"{loss}\"\n{stations}{traffic}"
    ))
}

#[test]
fn bbr_fills_lossy_long_path() {
    let of = |kind: &str| shared(&[kind], "100 Mbit/s", "0.5%", 8)[0];
    let (bbr, newreno) = (of("bbr"), of("newreno"));
    eprintln!("bbr {bbr:.1} newreno {newreno:.1} Mbit/s");
    assert!(bbr > 70.0, "{bbr} Mbit/s");
    assert!(bbr > 4.0 * newreno, "{bbr} beside {newreno} Mbit/s");
}

/// Losses found chunk by chunk, lost retransmissions among them, and a queue that overflows at the
/// start: neither a timeout nor a wrong count of the flight slows the sender.
#[test]
fn sctp_with_bbr_fills_clean_and_lossy_long_paths() {
    for (loss, least) in [("0%", 85.0), ("1%", 75.0)] {
        let found = shared_by("sctp", &["bbr"], "100 Mbit/s", loss, 8)[0];
        eprintln!("loss {loss}: {found:.1} Mbit/s");
        assert!(found > least, "loss {loss}: {found} Mbit/s");
    }
}

#[test]
fn controllers_share_a_bottleneck_link() {
    for kinds in [["bbr", "bbr"], ["bbr", "newreno"], ["newreno", "newreno"]] {
        let shares = shared(&kinds, "20 Mbit/s", "0%", 30);
        let total: f64 = shares.iter().sum();
        eprintln!("{kinds:?} {shares:.1?}");
        assert!(total > 15.0, "{kinds:?} {shares:?} Mbit/s");
        let least = shares.iter().copied().fold(f64::MAX, f64::min);
        assert!(least > total / 6.0, "{kinds:?} {shares:?} Mbit/s");
    }
}

#[test]
fn bbr_finds_slow_and_fast_bottlenecks() {
    for (rate, most) in [
        ("1 Mbit/s", 1.0),
        ("10 Mbit/s", 10.0),
        ("400 Mbit/s", 400.0),
    ] {
        let found = shared(&["bbr"], rate, "0%", 8)[0];
        eprintln!("{rate}: {found:.2}");
        assert!(found > most * 0.7 && found <= most, "{found} of {rate}");
    }
}

#[test]
fn words_of_earlier_versions_name_the_same_controllers() {
    for (alias, name) in [("loss", "newreno"), ("delay", "ledbat"), ("rate", "bbr")] {
        let of = |kind: &str| shared(&[kind], "10 Mbit/s", "0.5%", 2);
        assert_eq!(of(alias), of(name));
    }
}

/// Mbit/s of one bulk sender over 2 Mbit/s and 20 ms, with options of sender and receiver.
fn alone([sender, receiver]: [&str; 2], span_s: u32) -> f64 {
    mbps(&format!(
        "time_limit = \"{span_s} s\"\n[medium]\nkind = \"switch\"\nrate = \"2 Mbit/s\"\n\
         delay = \"10 ms\"\nqueue = \"64 KiB\"\n\
         [[station]]\nengine = {{ protocol = \"xtp\", {sender} }}\n\
         [[station]]\nengine = {{ protocol = \"xtp\", {receiver} }}\n\
         [[traffic]]\nfrom = [0]\nto = [1]\nlength = {{ fixed = 4096 }}\n\
         interarrival = {{ fixed = \"100 us\" }}\noutstanding = 60\n"
    ))[0]
}

#[test]
fn bbr_keeps_its_rate_with_short_packets() {
    // 96 of 166 octets of a frame are user bytes: 1.16 Mbit/s at most.
    let options = "packet = 128, congestion = \"bbr\"";
    let found = alone([options, "packet = 128"], 60);
    assert!((0.8..1.3).contains(&found), "{found} Mbit/s");
}
