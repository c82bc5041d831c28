//! Unary calls of many callers over one connection of gRPC, by crate `tonic`.
//!
//! `tonic-peer CALLERS MESSAGE_LEN SECONDS CLIENT_CPU SERVER_CPU` prints the calls a second. Request and
//! reply have MESSAGE_LEN bytes and no encoding; callers are tasks; the server is a process of its own;
//! each process has one thread.

use bytes::{Buf, BufMut, Bytes};
use std::convert::Infallible;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::{self, uri::PathAndQuery};
use tonic::codegen::{BoxFuture, Context, Poll, Service};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

type Outcome<T> = Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: tonic-peer CALLERS MESSAGE_LEN SECONDS CLIENT_CPU SERVER_CPU";

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", cpu] => runtime.block_on(serve(cpu.parse()?)),
        [callers, len, seconds, client, server] => {
            let span = Duration::from_secs_f64(seconds.parse()?);
            pin(client.parse()?)?;
            let made = race(callers.parse()?, len.parse()?, span, server);
            println!("{:.1}", runtime.block_on(made)?);
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

/// Starts the server as a separate process and calls it; the calls a second.
async fn race(callers: usize, len: usize, span: Duration, server: &str) -> Outcome<f64> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["serve", server])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
    let address = lines.next().ok_or("the server printed no address")??;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
    let channel = endpoint.connect().await?;
    let message = Bytes::from(vec![7; len]);
    // Warm-up: windows open, tables grow.
    call_for(&channel, callers, &message, span / 4).await?;
    let began = Instant::now();
    let calls = call_for(&channel, callers, &message, span).await?;
    let rate = calls as f64 / began.elapsed().as_secs_f64();
    drop(child.stdin.take());
    child.wait()?;
    Ok(rate)
}

/// Lets the callers call for `span`; how many calls were answered.
async fn call_for(
    channel: &Channel,
    callers: usize,
    message: &Bytes,
    span: Duration,
) -> Outcome<u64> {
    let end = Instant::now() + span;
    let tasks: Vec<_> = (0..callers)
        .map(|_| tokio::spawn(call_until(channel.clone(), message.clone(), end)))
        .collect();
    let mut calls = 0;
    for task in tasks {
        calls += task.await??;
    }
    Ok(calls)
}

async fn call_until(channel: Channel, message: Bytes, end: Instant) -> Result<u64, Status> {
    let mut client = tonic::client::Grpc::new(channel);
    let path = PathAndQuery::from_static("/peer.Echo/Echo");
    let mut calls = 0;
    while Instant::now() < end {
        let ready = client.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        let request = Request::new(message.clone());
        let reply: Response<Bytes> = client.unary(request, path.clone(), Raw).await?;
        if reply.get_ref() != &message {
            return Err(Status::data_loss("a reply is not its request"));
        }
        calls += 1;
    }
    Ok(calls)
}

async fn serve(cpu: usize) -> Outcome<()> {
    pin(cpu)?;
    let incoming =
        TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?.with_nodelay(Some(true));
    println!("{}", incoming.local_addr()?);
    std::io::stdout().flush()?;
    std::thread::spawn(|| {
        // Ends with the process that started it.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    Server::builder()
        .add_service(Echo)
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

/// Answers each request with its own bytes.
#[derive(Clone)]
struct Echo;

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = BoxFuture<Response<Bytes>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        Box::pin(async move { Ok(Response::new(request.into_inner())) })
    }
}

impl Service<http::Request<tonic::body::Body>> for Echo {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(async move {
            let mut server = tonic::server::Grpc::new(Raw);
            Ok(server.unary(Echo, request).await)
        })
    }
}

impl NamedService for Echo {
    const NAME: &'static str = "peer.Echo";
}

/// Messages as they are, without an encoding.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

fn pin(cpu: usize) -> Outcome<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}
