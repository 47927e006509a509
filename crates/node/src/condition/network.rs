//! Ports and URLs.

use super::in_words;
use rustls::pki_types::ServerName;
use std::fmt;
use std::fs;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::http::Uri;
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsProvider};

/// Time limit of a check. A peer that accepts a connection but never answers is not ready.
pub const LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of addresses of a name that are tried in one check.
const ADDRESSES: usize = 4;
/// The usual paths of CA bundles in distributions.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// `HOST:PORT`; the host is a name, an IPv4 address or an IPv6 address in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    pub fn parse(text: &str) -> Option<Address> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let host = match host.strip_prefix('[') {
            Some(inner) => {
                let inner = inner.strip_suffix(']')?;
                inner.parse::<std::net::Ipv6Addr>().ok()?;
                inner
            }
            // An IPv6 address without brackets is ambiguous.
            None if host.contains(':') => return None,
            None => host,
        };
        ServerName::try_from(host).ok()?;
        Some(Address { host: host.to_owned(), port })
    }

    pub fn accepts(&self) -> Result<(), String> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found: Vec<_> = found.map_err(|error| unresolved(&self.host, &error))?.take(ADDRESSES).collect();
        let mut problem = format!("the name {} has no address", self.host);
        for address in &found {
            match TcpStream::connect_timeout(address, LIMIT / found.len() as u32) {
                Ok(_) => return Ok(()),
                Err(error) => problem = in_words(&error),
            }
        }
        Err(problem)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

fn unresolved(host: &str, error: &std::io::Error) -> String {
    let text = error.to_string();
    let cause = text.rsplit(": ").next().unwrap_or_default();
    format!("the name {host} does not resolve: {cause}")
}

/// The certificates that are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that the image trusts.
    #[default]
    Image,
    /// Those signed by an authority in this file.
    File(PathBuf),
    /// All certificates.
    Anybody,
}

impl Trust {
    /// The trusted authorities. They are read for every check, because they may change while the program waits.
    fn roots(&self) -> Result<RootCerts, String> {
        let path = match self {
            // The list is not used.
            Trust::Anybody => return Ok(RootCerts::new_with_certs(&[])),
            Trust::File(path) => path.as_path(),
            Trust::Image => BUNDLES.iter().map(Path::new).find(|path| path.exists()).ok_or(
                "this image has no CA certificates; pass some with --ca, or disable the check with --insecure",
            )?,
        };
        let unread = |problem: &str| format!("CA certificates in {}: {problem}", path.display());
        let pem = fs::read(path).map_err(|error| unread(&in_words(&error)))?;
        let mut roots = Vec::new();
        for item in ureq::tls::parse_pem(&pem) {
            // Keys in the same file are ignored.
            if let PemItem::Certificate(certificate) = item.map_err(|error| unread(&error.to_string()))? {
                roots.push(certificate);
            }
        }
        match roots.is_empty() {
            true => Err(unread("none found; expected PEM")),
            false => Ok(RootCerts::new_with_certs(&roots)),
        }
    }
}

/// An `http` or `https` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url(Uri);

impl Url {
    pub fn parse(text: &str) -> Option<Url> {
        let uri: Uri = text.parse().ok()?;
        let known = matches!(uri.scheme_str(), Some("http" | "https"));
        (known && uri.host().is_some_and(|host| !host.is_empty())).then_some(Url(uri))
    }

    pub fn is_https(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    /// Checks for a 2xx answer. Redirects are not followed: an agent that redirects has not reported that it is ready.
    pub fn answers(&self, trust: &Trust) -> Result<(), String> {
        let mut tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .disable_verification(*trust == Trust::Anybody);
        if self.is_https() {
            tls = tls.root_certs(trust.roots()?);
        }
        let agent = ureq::Agent::config_builder()
            .tls_config(tls.build())
            .timeout_global(Some(LIMIT))
            .max_redirects(0)
            .http_status_as_error(false)
            // The server is on this node or in this cluster, so no proxy is used.
            .proxy(None)
            .user_agent(concat!("rollcall-node/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        match agent.get(self.0.clone()).call() {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(format!("HTTP {}", answer.status().as_u16())),
            Err(error) => Err(self.in_words(&error)),
        }
    }

    fn in_words(&self, error: &ureq::Error) -> String {
        match error {
            // TLS errors are wrapped in I/O errors.
            ureq::Error::Io(error) => match error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
                Some(error) => refused(error),
                None => in_words(error),
            },
            ureq::Error::Rustls(error) => refused(error),
            ureq::Error::Timeout(_) => format!("no answer within {}s", LIMIT.as_secs()),
            ureq::Error::HostNotFound => {
                format!("the name {} does not resolve", self.0.host().unwrap_or_default())
            }
            other => other.to_string(),
        }
    }
}

fn refused(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(cause) => format!("its certificate is rejected: {cause}"),
        other => format!("TLS: {other}"),
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_names_and_both_kinds_of_numbers() {
        for text in ["csi:80", "csi.kube-system.svc:9808", "10.0.0.1:443", "[::1]:53", "localhost:1"] {
            assert_eq!(Address::parse(text).map(|address| address.to_string()).as_deref(), Some(text));
        }
        for text in ["csi", "csi:", ":80", "csi:0", "csi:70000", "::1:53", "[csi]:80", "[::1]", "a b:80", ""]
        {
            assert_eq!(Address::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn urls_are_http_and_https() {
        for text in ["http://csi:9808/healthz", "https://[::1]/", "http://10.0.0.1:80/x?y=1"] {
            assert_eq!(Url::parse(text).map(|url| url.to_string()).as_deref(), Some(text));
        }
        for text in ["csi:80", "ftp://csi/", "http://", "/healthz", "http:// x/", ""] {
            assert_eq!(Url::parse(text), None, "{text:?}");
        }
    }
}
