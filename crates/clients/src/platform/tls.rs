//! TLS to the platforms: rustls with ring, the public authorities, and those that are configured besides.
//!
//! Verification cannot be switched off; a test or a private platform brings its own authority.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The TLS settings for a platform, for TLS 1.2 and 1.3 with HTTP/2 and HTTP/1.1 on offer.
pub(crate) fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = ca_file {
        add_authorities(&mut roots, file)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn add_authorities(roots: &mut RootCertStore, file: &Path) -> Result<(), String> {
    let unreadable = |error: rustls::pki_types::pem::Error| {
        format!("cannot be read as a PEM file of certificates: {error}")
    };
    let mut count = 0_usize;
    for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
        let added = roots.add(certificate.map_err(unreadable)?);
        added.map_err(|error| format!("holds a certificate that is no authority: {error}"))?;
        count += 1;
    }
    if count == 0 { Err("holds no certificate".to_owned()) } else { Ok(()) }
}
