//! TLS as a Postgres URL asks for it, with one provider.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::UrlError;

/// The parts of a URL's query that are ours and not the driver's.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) verifies: bool,
    root_certificates: Option<String>,
}

impl Asked {
    /// Takes `sslrootcert` and the verifying modes of `sslmode` out of the URL.
    pub(super) fn split_off(url: &str) -> (String, Self) {
        let Some((place, query)) = url.split_once('?') else {
            return (url.to_owned(), Self::default());
        };
        let mut asked = Self::default();
        let rest: Vec<_> = query
            .split('&')
            .filter(|pair| match pair.split_once('=') {
                Some(("sslmode", "verify-full" | "verify-ca")) => {
                    asked.verifies = true;
                    false
                }
                Some(("sslrootcert", path)) => {
                    asked.root_certificates = Some(path.to_owned());
                    false
                }
                _ => true,
            })
            .collect();
        (format!("{place}?{}", rest.join("&")), asked)
    }
}

pub(super) fn connector(asked: &Asked) -> Result<MakeRustlsConnect, UrlError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the default versions of TLS");
    let config = if asked.verifies {
        builder.with_root_certificates(roots(asked.root_certificates.as_deref())?)
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny { provider }))
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn roots(path: Option<&str>) -> Result<RootCertStore, UrlError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = path else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let refused = |source: Box<dyn std::error::Error + Send + Sync>| UrlError::RootCertificates {
        path: path.to_owned(),
        source,
    };
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| refused(error.into()))? {
        let certificate = certificate.map_err(|error| refused(error.into()))?;
        roots.add(certificate).map_err(|error| refused(error.into()))?;
    }
    Ok(roots)
}

/// Encryption without verification, which is what `sslmode=prefer` and `require` mean everywhere.
#[derive(Debug)]
struct AcceptAny {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_parameters_are_split_off_and_the_rest_is_kept() {
        let url = "postgres://me@db/app?sslmode=verify-full&connect_timeout=3&sslrootcert=/ca.pem";
        let (rest, asked) = Asked::split_off(url);
        assert_eq!(rest, "postgres://me@db/app?connect_timeout=3");
        assert_eq!(asked, Asked { verifies: true, root_certificates: Some("/ca.pem".to_owned()) });
    }

    #[test]
    fn a_missing_certificate_file_is_named() {
        let url = "postgres://me@db/app?sslmode=verify-full&sslrootcert=/no/such.pem";
        let error = url.parse::<super::super::PostgresUrl>().unwrap_err();
        assert!(error.to_string().contains("sslrootcert=/no/such.pem"));
    }
}
