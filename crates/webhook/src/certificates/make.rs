//! Creates a certificate with an authority of its own.

use super::read::AUTHORITY;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use std::time::Duration;
use time::OffsetDateTime;

/// Certificates are backdated by this much, because the clocks of API servers may be behind ours.
pub const BACKDATED: Duration = Duration::from_secs(3600);

/// A certificate chain and its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub chain: String,
    pub key: String,
}

/// A certificate, and the authority that signed it.
#[derive(Clone, Debug)]
pub struct Made {
    pub pair: Pair,
    pub authority: String,
}

/// Creates a certificate for these names. The key of its authority is discarded.
pub fn make(names: &[String], now: Timestamp, lifetime: Duration) -> Result<Made, rcgen::Error> {
    let dated = |mut params: CertificateParams| {
        params.not_before = date(now.saturating_sub(BACKDATED).unwrap_or(now));
        params.not_after = date(now.saturating_add(lifetime).unwrap_or(Timestamp::MAX));
        params
    };
    let mut authority = dated(CertificateParams::default());
    // The time makes the name unique, because the bundle may contain several authorities.
    let name = format!("{AUTHORITY} {}", now.as_millisecond());
    authority.distinguished_name.push(DnType::CommonName, name);
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let mut params = dated(CertificateParams::new(names)?);
    let name = names.first().map_or("", String::as_str);
    // A common name has at most 64 characters; clients ignore it.
    params.distinguished_name.push(DnType::CommonName, name.chars().take(64).collect::<String>());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let chain = params.signed_by(&key, &issuer)?.pem();
    Ok(Made { pair: Pair { chain, key: key.serialize_pem() }, authority: issuer.pem() })
}

fn date(at: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(at.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
