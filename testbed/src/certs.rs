//! Keys and certificates of one cluster.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// The authority that signs the API server's certificate and the clients'.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Creates the authority, and writes the files that the components need: `ca.crt`, `apiserver.crt`,
    /// `apiserver.key`, `sa.key`, `sa.pub`.
    pub fn create(dir: &Path, service_ip: Ipv4Addr) -> Result<Authority> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "rollcall-testbed");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        fs::write(dir.join("ca.crt"), issuer.pem())?;
        let authority = Authority { issuer };

        let names = [
            "localhost",
            "127.0.0.1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ];
        let mut names: Vec<String> = names.map(String::from).into();
        names.push(service_ip.to_string());
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        authority.issue(params, dir, "apiserver")?;

        // Service account tokens: the API server needs the public key in a file of its own.
        let key = KeyPair::generate()?;
        fs::write(dir.join("sa.key"), key.serialize_pem())?;
        fs::write(dir.join("sa.pub"), key.public_key_pem())?;
        Ok(authority)
    }

    /// Writes `<file>.crt` and `<file>.key` for a client with this user and group.
    pub fn issue_client(&self, dir: &Path, file: &str, user: &str, group: &str) -> Result<()> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, dir, file)
    }

    fn issue(&self, mut params: CertificateParams, dir: &Path, file: &str) -> Result<()> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        fs::write(dir.join(format!("{file}.crt")), certificate.pem())?;
        fs::write(dir.join(format!("{file}.key")), key.serialize_pem())?;
        Ok(())
    }

    /// The authority's certificate, as DER.
    pub fn der(&self) -> Vec<u8> {
        self.issuer.der().to_vec()
    }
}
