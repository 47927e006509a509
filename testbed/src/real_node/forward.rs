//! Forwards port 443 of the `kubernetes` Service's address to the API server, because there is no kube-proxy.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// A thread that forwards connections until it is dropped.
#[derive(Debug)]
pub struct Forward {
    // Dropping the sender stops the thread.
    _stop: oneshot::Sender<()>,
}

impl Forward {
    pub fn start(service: Ipv4Addr, api_port: u16) -> Result<Forward> {
        let listener =
            TcpListener::bind((service, 443)).with_context(|| format!("listen on {service}:443"))?;
        listener.set_nonblocking(true)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    result = serve(listener, api_port) => {
                        if let Err(error) = result {
                            eprintln!("testbed: the service address failed: {error:#}");
                        }
                    }
                    _ = stopped => {}
                }
            });
        });
        Ok(Forward { _stop: stop })
    }
}

async fn serve(listener: TcpListener, api_port: u16) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut pod, _) = listener.accept().await?;
        tokio::spawn(async move {
            // If the server is down, the pod's connection is closed.
            if let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, api_port)).await {
                let _ = copy_bidirectional(&mut pod, &mut server).await;
            }
        });
    }
}
