//! The certificates of the webhook: created, stored in a Secret that all replicas share, renewed and published
//! automatically.
//!
//! ```text
//!  Secret:  tls.crt, tls.key     the certificate that is served
//!           next.crt, next.key   the certificate that will be served when every API server trusts it
//!           ca.crt               the authorities of both, the newest first
//!  caBundle of the webhooks = ca.crt
//! ```
//!
//! Each certificate has an authority of its own, whose key is discarded after signing, so no stolen key can sign
//! another certificate. A renewal therefore always changes the authority, and has several steps: the controller
//! publishes both authorities, and then serves the new certificate. No call fails in between.
//!
//! - [`make`] creates a certificate. [`plan`] decides about the next step; both are pure functions. [`keeper`] carries
//!   the steps out.
//! - A Secret without our annotation belongs to a user: the controller serves and reloads its certificate, but never
//!   writes it.

pub mod keeper;
pub mod make;
pub mod plan;
pub mod read;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::{Arc, PoisonError, RwLock};

/// The certificate that is served now; `None` until one has been read.
#[derive(Debug, Default)]
pub struct Served(RwLock<Option<Arc<CertifiedKey>>>);

impl Served {
    /// Serves this certificate on new connections.
    pub fn serve(&self, certificate: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(certificate));
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
