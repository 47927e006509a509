//! The `kubernetes` Service's address, port 443: there is no kube-proxy, so this carries the bytes.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// A thread that forwards connections until it is dropped.
#[derive(Debug)]
pub struct Forward {
    // Its drop is the signal.
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
                            eprintln!("testbed: the service address ended: {error:#}");
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
            // A server that is down is what the pod sees, too: its connection closes.
            if let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, api_port)).await {
                let _ = copy_bidirectional(&mut pod, &mut server).await;
            }
        });
    }
}
