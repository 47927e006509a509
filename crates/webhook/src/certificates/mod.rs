//! The certificates of the webhook: made, kept in one Secret that all replicas share, renewed and published without a hand.
//!
//! ```text
//!  Secret:  tls.crt, tls.key     what is served
//!           next.crt, next.key   what will be served when every API server trusts it
//!           ca.crt               the authorities of both, the newest first
//!  caBundle of the webhooks = ca.crt
//! ```
//!
//! Each certificate has an authority of its own, whose key is thrown away as soon as it has signed: nothing that could be
//! stolen can sign another one. So a renewal always changes the authority, and goes in steps: both authorities are
//! published, then the new certificate is served. No call fails in between.
//!
//! - [`make`] makes one, [`plan`] says what is to be done about those there are: pure. [`keeper`] does it.
//! - A Secret without our mark belongs to whoever made it: it is served and reloaded, never written.

pub mod keeper;
pub mod make;
pub mod plan;
pub mod read;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::{Arc, PoisonError, RwLock};

/// The certificate that is served now; none until one has been read.
#[derive(Debug, Default)]
pub struct Served(RwLock<Option<Arc<CertifiedKey>>>);

impl Served {
    /// From now on new connections get this one.
    pub fn serve(&self, certificate: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(certificate));
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
