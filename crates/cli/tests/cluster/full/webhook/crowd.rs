//! Many foreign clients connect to the port of the webhook; requests of the API server still succeed.

use super::{hook, load};
use crate::common::server::Server;
use crate::common::*;
use futures::future::join_all;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

/// Number of foreign connections, more than the webhook accepts at the same time.
const STRANGERS: usize = 600;
/// Interval and number of new connections. Twice as many arrive per second as stay open, because the webhook closes each one
/// after a second and the machine may be busy.
const PACE: Duration = Duration::from_millis(20);
const AT_A_TIME: usize = 24;
const PODS: f64 = 25.0;

/// Opens a connection and sends nothing, or only the beginning of a request. It uses one of many local addresses; one of them
/// is the API server's.
async fn stranger(port: u16, number: usize) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 0, 1 + u8::try_from(number % 12)?), 0).into())?;
    let mut stream = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?;
    if number % 2 == 1 {
        // The first bytes of a TLS handshake that is never completed.
        stream.write_all(&[22, 3, 1, 2, 0]).await?;
    }
    Ok(stream)
}

async fn crowd(port: u16, stop: CancellationToken) -> Result<()> {
    let mut strangers = Vec::new();
    for first in (0..).step_by(AT_A_TIME) {
        if stop.is_cancelled() {
            break;
        }
        let coming = join_all((first..first + AT_A_TIME).map(|number| stranger(port, number))).await;
        // Connections that are rejected while connecting count as well.
        strangers.extend(coming.into_iter().flatten());
        strangers.drain(..strangers.len().saturating_sub(STRANGERS));
        if first > STRANGERS {
            tokio::time::sleep(PACE).await;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_crowd_at_the_port_keeps_no_pod_from_its_gate() -> Result<()> {
    let lab = hook::install(0).await?;
    let controller = Controller::start(&lab, Options::default()).await?;
    lab.call_webhook(controller.webhook)?;
    let server = Server::new(lab.cluster());
    let (stop, gone) = (CancellationToken::new(), CancellationToken::new());
    let strangers = crowd(controller.webhook, gone.clone());
    let pods = async {
        let crowded = "rollcall_turned_away_total{server=\"webhook\",reason=\"full\"}";
        let reviews = "rollcall_webhook_reviews_total{outcome=\"changed\"}";
        let of =
            async |name: &str| anyhow::Ok(controller.metrics().await?.get(name).copied().unwrap_or_default());
        let at_least = async |what: &str, name: &str, number: f64| {
            wait::until(what, LIMIT, async || Ok((of(name).await? >= number).then_some(()))).await
        };
        at_least("a crowd", crowded, 1.0).await?;
        // This is the first call of the API server, so it has no open connection yet.
        hook::in_force(&server).await?;
        let namespace = server.namespace("crowd", json!({})).await?;
        let (sequence, pod) = hook::claimed(&namespace);
        server.sequences(&namespace, &[sequence]).await?;
        let before = of(reviews).await?;
        let load = load::create(&server, &namespace, "pod", &pod, stop.clone());
        let enough = async {
            let enough = at_least("reviews", reviews, before + PODS).await;
            stop.cancel();
            enough
        };
        let (outcome, ()) = tokio::try_join!(load, enough)?;
        gone.cancel();
        anyhow::Ok(outcome)
    };
    let (outcome, ()) = tokio::try_join!(pods, strangers)?;
    assert!(outcome.refused.is_empty() && outcome.free == 0 && outcome.held > 20, "{outcome:?}");
    controller.probe("/livez").await?;
    Ok(())
}
