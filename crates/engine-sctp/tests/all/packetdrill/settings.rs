//! What a script sets, as a configuration of the engine: `sysctl` of its system, and options of its sockets. All
//! hold from the start.

use super::script::{Action, Call, Script};
use super::value::{Item, Value};
use core::time::Duration;
use engine::Secret;
use engine_sctp::SctpConfig;

/// The configuration that `script` asks for; the error says what the engine does not have.
pub fn settings(script: &Script) -> Result<SctpConfig, String> {
    let mut config = SctpConfig {
        // Behind an IPv4 header in 1500 octets, as the scripts have it.
        packet_len: 1480,
        secret: Secret::from_seed(1),
        sack_delay: Duration::from_millis(200),
        reconfigure: false,
        rto: congestion::RtoBounds {
            initial: Duration::from_secs(1),
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
        },
        ..SctpConfig::default()
    };
    for event in &script.events {
        match &event.action {
            Action::Shell(command) => system(&mut config, command)?,
            Action::Call(call) if call.name == "setsockopt" => option(&mut config, call)?,
            _ => {}
        }
    }
    Ok(config)
}

fn system(config: &mut SctpConfig, command: &str) -> Result<(), String> {
    let Some((name, value)) = command
        .split_whitespace()
        .last()
        .and_then(|word| word.split_once('='))
    else {
        return Err(format!("command `{command}`"));
    };
    let is_on = value != "0";
    match name.rsplit('.').next().unwrap_or_default() {
        "pr_enable" | "prsctp_enable" => config.partial_reliability = is_on,
        "reconfig_enable" => config.reconfigure = is_on,
        "nrsack_enable" | "nrsack_on_off" | "nr_sack_on_off" if is_on => {
            return Err("NR-SACK".into());
        }
        // Scripts set it back at their end.
        "initial_cwnd" => {
            config.initial_window_packets = config.initial_window_packets.or(value.parse().ok());
        }
        "rto_min" => config.rto.min = millis(value.parse().unwrap_or(1000)),
        "rto_initial" => config.rto.initial = millis(value.parse().unwrap_or(1000)),
        _ => {}
    }
    Ok(())
}

fn millis(number: i64) -> Duration {
    Duration::from_millis(number.max(1) as u64)
}

fn option(config: &mut SctpConfig, call: &Call) -> Result<(), String> {
    let [_, _, Value::Word(name), value, ..] = &call.arguments[..] else {
        return Err("an option without a name".into());
    };
    let fields = match value {
        Value::Item(item) => item.clone(),
        _ => Item::default(),
    };
    match name.as_str() {
        "SCTP_RTOINFO" => {
            for (field, time) in [
                ("srto_initial", &mut config.rto.initial),
                ("srto_min", &mut config.rto.min),
                ("srto_max", &mut config.rto.max),
            ] {
                *time = fields
                    .number(field)?
                    .filter(|ms| *ms > 0)
                    .map_or(*time, millis);
            }
        }
        "SCTP_INITMSG" => {
            let streams = |field| Ok::<_, String>(fields.number(field)?.filter(|count| *count > 0));
            let outbound = streams("sinit_num_ostreams")?;
            config.outbound_streams =
                outbound.map_or(config.outbound_streams, |count| count as u16);
            let inbound = streams("sinit_max_instreams")?;
            config.inbound_streams = inbound.map_or(config.inbound_streams, |count| count as u16);
            let attempts = streams("sinit_max_attempts")?;
            config.init_retries = attempts.map_or(config.init_retries, |count| count as u32);
            let longest = streams("sinit_max_init_timeo")?;
            config.rto.initial =
                longest.map_or(config.rto.initial, |ms| config.rto.initial.min(millis(ms)));
        }
        "SCTP_PEER_ADDR_PARAMS" => {
            if let Value::Word(flags) = fields.field("spp_flags")
                && flags.contains("SPP_HB_DISABLE")
            {
                config.heartbeat_interval = Duration::ZERO;
            }
        }
        "SCTP_INTERLEAVING_SUPPORTED" => {
            config.interleave = fields.number("assoc_value")? == Some(1)
        }
        "SCTP_NODELAY" | "SCTP_FRAGMENT_INTERLEAVE" | "SCTP_EVENTS" => {}
        other => return Err(format!("option {other}")),
    }
    Ok(())
}
