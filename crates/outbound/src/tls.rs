//! TLS to the platforms: rustls with ring, the public authorities, and those that are configured
//! besides.
//!
//! Verification cannot be switched off; a test or a private platform brings its own authority.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

/// The files of a certificate that this service shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate and its chain, in PEM.
    pub certificate_file: PathBuf,
    /// Its private key, in PEM.
    pub key_file: PathBuf,
}

/// Why there are no TLS settings: the key of the configuration, and what is wrong.
pub type TlsProblem = (&'static str, String);

/// The TLS settings for a platform that wants to see who calls.
pub fn client_config_with(
    ca_file: Option<&Path>,
    identity: Option<&ClientIdentity>,
) -> Result<Arc<ClientConfig>, TlsProblem> {
    let builder = verifying(ca_file).map_err(|message| ("ca_file", message))?;
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = certificates(&identity.certificate_file)
                .map_err(|message| ("client_certificate_file", message))?;
            let key = PrivateKeyDer::from_pem_file(&identity.key_file).map_err(|error| {
                let message = format!("cannot be read as a PEM file of a private key: {error}");
                ("client_key_file", message)
            })?;
            builder.with_client_auth_cert(chain, key).map_err(|error| {
                ("client_key_file", format!("does not belong to client_certificate_file: {error}"))
            })?
        }
    };
    Ok(with_protocols(config))
}

/// The TLS settings for a platform, for TLS 1.2 and 1.3 with HTTP/2 and HTTP/1.1 on offer.
pub fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    Ok(with_protocols(verifying(ca_file)?.with_no_client_auth()))
}

fn verifying(
    ca_file: Option<&Path>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = ca_file {
        add_authorities(&mut roots, file)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots))
}

fn with_protocols(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

fn add_authorities(roots: &mut RootCertStore, file: &Path) -> Result<(), String> {
    for certificate in certificates(file)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("holds a certificate that is no authority: {error}"))?;
    }
    Ok(())
}

/// The certificates of a PEM file, of which there is at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unreadable = |error: rustls::pki_types::pem::Error| {
        format!("cannot be read as a PEM file of certificates: {error}")
    };
    let all: Vec<_> = CertificateDer::pem_file_iter(file)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    if all.is_empty() { Err("holds no certificate".to_owned()) } else { Ok(all) }
}
