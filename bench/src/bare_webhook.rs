//! A minimal webhook, which adds the gate to every pod without reading it. Its cost is that of any webhook.

use crate::lab::GATE;
use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// The webhook's server; it ends when this value is dropped.
pub struct BareWebhook {
    pub url: String,
    /// The value of `caBundle`.
    pub authority: String,
    _server: JoinSet<()>,
}

impl BareWebhook {
    pub async fn start() -> Result<BareWebhook> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
        let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}/mutate", listener.local_addr()?);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    stream.set_nodelay(true)?;
                    serve(acceptor.accept(stream).await?).await
                });
            }
        });
        Ok(BareWebhook { url, authority: STANDARD.encode(made.cert.pem()), _server: server })
    }
}

/// Answers the requests of one connection.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<()> {
    let patch = json!([{ "op": "add", "path": "/spec/schedulingGates", "value": [{ "name": GATE }] }]);
    let patch = STANDARD.encode(patch.to_string());
    let mut buffer = Vec::with_capacity(1 << 14);
    loop {
        let uid = read(&mut stream, &mut buffer).await?;
        let response = json!({ "uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch });
        let review =
            json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response });
        let review = review.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            review.len()
        );
        stream.write_all(&[head.as_bytes(), review.as_bytes()].concat()).await?;
        stream.flush().await?;
    }
}

/// Reads a whole request; returns the uid of the review, which comes before any other uid.
async fn read(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Result<String> {
    buffer.clear();
    loop {
        anyhow::ensure!(stream.read_buf(buffer).await? > 0, "the connection ended");
        let text = String::from_utf8_lossy(buffer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.context("a length")?.parse()? {
            let uid = body.split("\"uid\":\"").nth(1).and_then(|rest| rest.split('"').next());
            return Ok(uid.context("a uid")?.to_owned());
        }
    }
}
