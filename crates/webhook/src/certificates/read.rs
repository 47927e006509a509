//! Parses certificates.

use super::make::{BACKDATED, Pair};
use jiff::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::collections::BTreeSet;
use std::net::IpAddr;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Prefix of the common names of our authorities.
pub const AUTHORITY: &str = "pod-sequence-webhook authority";

/// The properties of a certificate that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// When we created it. For certificates that we did not create, the value has no meaning.
    pub made: Timestamp,
    pub expires: Timestamp,
    pub names: BTreeSet<String>,
}

/// Why a certificate cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(String);

fn unusable(what: &str) -> impl Fn(&dyn std::fmt::Display) -> Unusable {
    move |error| Unusable(format!("{what}: {error}"))
}

/// The certificates in a PEM text, in their order; other parts are skipped.
pub fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok).collect()
}

/// The first of several certificates, as PEM.
pub fn first(pem: &str) -> Option<&str> {
    const END: &str = "-----END CERTIFICATE-----";
    let end = pem.find(END)? + END.len();
    Some(&pem[pem.find("-----BEGIN CERTIFICATE-----")?..end])
}

impl Pair {
    /// Converts the pair for the TLS server. Fails if the key does not belong to the certificate.
    pub fn certified(&self) -> Result<CertifiedKey, Unusable> {
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| unusable("tls.crt cannot be parsed")(&error))?;
        if chain.is_empty() {
            return Err(Unusable("tls.crt contains no certificate".into()));
        }
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes());
        let key = key.map_err(|error| unusable("tls.key cannot be parsed")(&error))?;
        let provider = rustls::crypto::ring::default_provider();
        CertifiedKey::from_der(chain, key, &provider)
            .map_err(|error| unusable("tls.key does not belong to tls.crt")(&error))
    }

    pub fn facts(&self) -> Result<Facts, Unusable> {
        let chain = certificates(&self.chain);
        let first = chain.first().ok_or_else(|| Unusable("tls.crt contains no certificate".into()))?;
        let (_, certificate) =
            X509Certificate::from_der(first).map_err(|error| unusable("tls.crt cannot be parsed")(&error))?;
        let at = |seconds: i64| {
            Timestamp::from_second(seconds).map_err(|error| unusable("tls.crt has an invalid date")(&error))
        };
        let begins = at(certificate.validity().not_before.timestamp())?;
        let alternatives = certificate.subject_alternative_name().ok().flatten();
        let names = alternatives.iter().flat_map(|names| &names.value.general_names).filter_map(name);
        Ok(Facts {
            made: begins.saturating_add(BACKDATED).unwrap_or(begins),
            expires: at(certificate.validity().not_after.timestamp())?,
            names: names.collect(),
        })
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(octets) => {
            let four = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
            four.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from)).ok().map(|ip| ip.to_string())
        }
        _ => None,
    }
}

/// Whether an authority was created by us.
fn is_ours(authority: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(authority).is_ok_and(|(_, certificate)| {
        let mut names = certificate.subject().iter_common_name();
        names.any(|name| name.as_str().is_ok_and(|name| name.starts_with(AUTHORITY)))
    })
}

/// Whether a `caBundle` may be overwritten: it is empty, or contains an authority of ours or one of `authorities`.
pub fn may_replace(bundle: &str, authorities: &str) -> bool {
    let known = certificates(authorities);
    bundle.trim().is_empty()
        || certificates(bundle).iter().any(|there| known.contains(there) || is_ours(there))
}

/// Whether a bundle contains the newest of these authorities.
pub fn trusts_newest(bundle: &str, authorities: &str) -> bool {
    let newest = first(authorities).map(certificates).unwrap_or_default();
    newest.first().is_some_and(|newest| certificates(bundle).contains(newest))
}
