//! One QUIC stream over the loopback between two processes, by crate `quinn`.
//!
//! `quinn-peer plain|aes MESSAGE_LEN SECONDS SENDER_CPU RECEIVER_CPU` prints the received messages
//! per second. `plain` omits packet protection, as XTP has none; `aes` is standard QUIC. Packets
//! are 1472 octets, segmentation offload is quinn's own, each process has one thread.

use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: quinn-peer plain|aes MESSAGE_LEN SECONDS SENDER_CPU RECEIVER_CPU";

/// Octets of socket buffer, as requested by XTP's wire.
const BUFFER_LEN: usize = 4 << 20;

/// Octets of flow control window: what fits in the socket buffer with the kernel's overhead.
const WINDOW: u32 = 2 << 20;

const PACKET_LEN: u16 = 1472;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", kind, cpu] => runtime.block_on(serve(kind == "plain", cpu.parse()?)),
        [kind @ ("plain" | "aes"), len, seconds, sender, receiver] => {
            let (len, seconds) = (len.parse()?, Duration::from_secs_f64(seconds.parse()?));
            runtime.block_on(race(kind, len, seconds, sender.parse()?, receiver))
        }
        _ => Err(USAGE.into()),
    }
}

/// Starts the receiver as a separate process, sends to it, and prints the rate it measured.
async fn race(
    kind: &str,
    len: usize,
    span: Duration,
    sender: usize,
    receiver: &str,
) -> Outcome<()> {
    pin(sender)?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["serve", kind, receiver])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
    let port: u16 = lines
        .next()
        .ok_or("the receiver printed no port")??
        .parse()?;
    let sent = send(kind == "plain", port, len, span).await;
    let line = lines.next().ok_or("the receiver printed no count")??;
    child.wait()?;
    sent?;
    let (bytes, seconds) = line.split_once(' ').ok_or("two numbers were expected")?;
    let (bytes, seconds): (f64, f64) = (bytes.parse()?, seconds.parse()?);
    println!("{:.1}", bytes / seconds / len as f64);
    Ok(())
}

async fn send(plain: bool, port: u16, len: usize, span: Duration) -> Outcome<()> {
    let mut endpoint = endpoint(None)?;
    endpoint.set_default_client_config(client(plain)?);
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    let connection = endpoint.connect(to, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    let message = vec![7; len];
    let end = Instant::now() + span;
    while Instant::now() < end {
        for _ in 0..16 {
            stream.write_all(&message).await?;
        }
    }
    stream.finish()?;
    stream.stopped().await?;
    connection.close(VarInt::from_u32(0), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

/// Receives one stream and prints its bytes and its duration in seconds.
async fn serve(plain: bool, cpu: usize) -> Outcome<()> {
    pin(cpu)?;
    let endpoint = endpoint(Some(server(plain)?))?;
    println!("{}", endpoint.local_addr()?.port());
    std::io::stdout().flush()?;
    let connection = endpoint.accept().await.ok_or("no peer")?.await?;
    let mut stream = connection.accept_uni().await?;
    let mut buffer = vec![0; 256 << 10];
    let (mut bytes, mut began) = (0u64, None);
    while let Some(len) = stream.read(&mut buffer).await? {
        began.get_or_insert_with(Instant::now);
        bytes += len as u64;
    }
    let seconds = began.map_or(0.0, |began| began.elapsed().as_secs_f64());
    println!("{bytes} {seconds}");
    connection.closed().await;
    Ok(())
}

fn endpoint(server: Option<ServerConfig>) -> Outcome<Endpoint> {
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    let options = socket2::SockRef::from(&socket);
    options.set_recv_buffer_size(BUFFER_LEN)?;
    options.set_send_buffer_size(BUFFER_LEN)?;
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(PACKET_LEN)?;
    let runtime = Arc::new(quinn::TokioRuntime);
    Ok(Endpoint::new(config, server, socket, runtime)?)
}

/// Fastest settings on a loopback: a congestion window as large as the flow control window, and an
/// ACK per 40 packets instead of two.
fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let mut congestion = quinn::congestion::CubicConfig::default();
    congestion.initial_window(u64::from(WINDOW));
    let mut acks = quinn::AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(40));
    config
        .congestion_controller_factory(Arc::new(congestion))
        .ack_frequency_config(Some(acks))
        .send_fairness(false)
        .initial_mtu(PACKET_LEN)
        .mtu_discovery_config(None)
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW));
    Arc::new(config)
}

fn client(plain: bool) -> Outcome<ClientConfig> {
    let mut config = match plain {
        true => quinn_plaintext::client_config(),
        false => {
            let crypto = rustls::ClientConfig::builder()
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate))
                .with_no_client_auth();
            let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(crypto)?;
            ClientConfig::new(Arc::new(crypto))
        }
    };
    config.transport_config(transport());
    Ok(config)
}

fn server(plain: bool) -> Outcome<ServerConfig> {
    let mut config = match plain {
        true => quinn_plaintext::server_config(),
        false => {
            let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
            let key =
                rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
            ServerConfig::with_single_cert(vec![certified.cert.der().clone()], key.into())?
        }
    };
    config.transport_config(transport());
    Ok(config)
}

fn pin(cpu: usize) -> Outcome<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Accepts every certificate: the peer on the loopback is this program.
#[derive(Debug)]
struct AcceptAnyCertificate;

impl rustls::client::danger::ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &rustls::pki_types::CertificateDer<'_>,
        _intermediates: &[rustls::pki_types::CertificateDer<'_>],
        _server_name: &rustls::pki_types::ServerName<'_>,
        _ocsp_response: &[u8],
        _now: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &rustls::pki_types::CertificateDer<'_>,
        _dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &rustls::pki_types::CertificateDer<'_>,
        _dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
