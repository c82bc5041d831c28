//! Modules on the circuits of tunnels and of file transfers.

use crate::files::{Host, Scratch, endpoint};
use crate::tunnel::{Path, bytes, local, server};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use towpath::files::{ReceiveLimits, send};
use towpath::push::ModuleStack;
use towpath::tunnel::Tunnel;
use towpath::xtp::EndpointConfig;

/// Modules by the words of their options; `key` is the file of a key.
fn modules(words: &str, key: &std::path::Path) -> Option<ModuleStack> {
    let mut own = BTreeMap::from([("push".to_owned(), words.to_owned())]);
    if words.contains("seal") {
        own.insert("seal-key".into(), key.to_string_lossy().into_owned());
    }
    if words.contains("fault") {
        own.insert("fault-delay".into(), "3ms".into());
    }
    let taken = ModuleStack::take(&mut own).expect("words of modules");
    assert!(own.is_empty() && taken.is_some());
    taken
}

#[test]
fn tunnel_with_modules_carries_both_directions_with_half_close() {
    let here = Scratch::new();
    let key = here.file("key", &[7; 32]);
    for words in ["compress", "seal", "compress/seal", "meter/buffer", "fault"] {
        // What can be compressed and what cannot, and a reply that starts after the request's end.
        let request = [vec![b'x'; 1 << 20], bytes(1 << 20, 1)].concat();
        let expected = request.clone();
        let target = server(1, move |got| {
            assert!(got == expected);
            bytes(3 << 20, 2)
        });
        let configure = |end: &mut Tunnel| end.set_modules(modules(words, &key));
        let path = Path::with(target, &EndpointConfig::default(), 10, configure);
        let mut tcp = path.connect();
        tcp.write_all(&request).expect("space to send");
        tcp.shutdown(Shutdown::Write).expect("an end");
        let mut answer = Vec::new();
        tcp.read_to_end(&mut answer).expect("a whole answer");
        assert!(answer == bytes(3 << 20, 2), "{words}");
        let [near, far] = path.stop();
        assert_eq!((near.ended, far.ended, near.broken), (1, 1, 0), "{words}");
    }
}

/// A tunnel to `target` whose ends have keys of their own, and what its ends log.
fn tunnel_of_two_keys(target: SocketAddr, here: &Scratch, log: &Sender<String>) -> Path {
    let keys = [here.file("one", &[1; 32]), here.file("two", &[2; 32])];
    let next = std::cell::Cell::new(0);
    Path::with(target, &EndpointConfig::default(), 10, |end| {
        end.set_modules(modules("seal", &keys[next.replace(1)]));
        let log = log.clone();
        end.set_log(move |line| drop(log.send(line.to_owned())));
    })
}

#[test]
fn ends_with_other_keys_reset_the_connection_and_say_why() {
    let here = Scratch::new();
    let target = std::net::TcpListener::bind(local()).expect("a free port");
    let (log, lines) = channel();
    let path = tunnel_of_two_keys(target.local_addr().expect("bound"), &here, &log);
    let mut tcp = path.connect();
    tcp.write_all(b"secret").expect("space to send");
    let error = tcp.read(&mut [0; 16]).expect_err("a reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let line = lines.recv_timeout(Duration::from_secs(20)).expect("a line");
    assert!(line.contains("the same push="), "{line}");
    let (mut peer, _) = target.accept().expect("the far end connected");
    let mut got = Vec::new();
    let _ = peer.read_to_end(&mut got);
    assert!(got.is_empty(), "nothing of what could not be opened");
    path.stop();
}

#[test]
fn files_pass_modules_of_both_ends_and_are_refused_without() {
    let here = Scratch::new();
    let key = here.file("key", &[7; 32]);
    let stack = || modules("meter/compress/seal", &key);
    let host = Host::with_modules(false, ReceiveLimits::default(), stack());
    let content = [vec![b'x'; 1 << 20], bytes((1 << 20) + 17, 5)].concat();
    let file = here.file("data", &content);
    let own = stack();
    let sent = send(&endpoint(), host.address, &file, own.as_ref(), &mut |_| ());
    let sent = sent.expect("it arrives");
    let received = host.received();
    let path = received.result.expect("it is whole");
    assert!(std::fs::read(path).expect("the file") == content);
    let plain = sent.module_counts["compress_octets_plain"];
    assert!(plain > content.len() as u64, "{plain}");
    assert!(sent.module_counts["compress_octets_sent"] < plain - 900_000);
    assert!(received.module_counts["meter_octets_received"] > content.len() as u64);

    let other = here.file("other", &content);
    let refused = send(&endpoint(), host.address, &other, None, &mut |_| ());
    assert!(refused.is_err());
    let failed = host.received().result.expect_err("no frame of a seal");
    assert!(failed.to_string().contains("the same push="), "{failed}");
    assert!(!host.folder.names().contains(&"other".to_owned()));
}
