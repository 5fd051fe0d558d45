//! Reloads the certificate of the public listener: every few seconds, and when the operator asks.

use std::sync::Arc;
use std::time::Duration;

use domain::time::Timestamp;
use runtime::metrics;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use transport::{CertificateRenewal, CertificateSource};

use crate::state::NodeState;

/// Watches the files of the certificate in use.
pub(super) struct CertificateWatch {
    certificates: Arc<CertificateSource>,
    /// Why the files could not be used at the last check; a problem is logged only when it is new.
    problem: Mutex<Option<String>>,
}

/// The result of a check of the certificate's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateReload {
    /// The listener speaks plain HTTP.
    NoTls,
    /// The files have not changed.
    Unchanged,
    /// New connections now get another certificate.
    Renewed,
    /// The files cannot be used, so the certificate in use stays. The log says why.
    Kept,
}

impl CertificateReload {
    /// The word for the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoTls => "none",
            Self::Unchanged => "unchanged",
            Self::Renewed => "renewed",
            Self::Kept => "kept",
        }
    }
}

impl CertificateWatch {
    /// Starts watching until the service stops. A certificate that is not valid is served
    /// nevertheless, because there is no better one.
    pub(super) fn start(
        state: &NodeState,
        certificates: Arc<CertificateSource>,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let validity = certificates.validity();
        metrics::certificate_in_use(ours(validity.ends));
        if !validity.holds_at(theirs(state.clock.now())) {
            let (begins, ends) = (validity.begins, validity.ends);
            tracing::error!(%begins, %ends, "the certificate of the public listener is not currently valid");
        }
        let watch = Arc::new(Self { certificates, problem: Mutex::new(None) });
        let every = Duration::from_secs(state.config.http.tls.check_every_s);
        if !every.is_zero() {
            Arc::clone(&watch).go_on_looking(state, every, stop);
        }
        watch
    }

    fn go_on_looking(
        self: Arc<Self>,
        state: &NodeState,
        every: Duration,
        stop: &CancellationToken,
    ) {
        let (watch, looking, stop) = (self, state.clone(), stop.clone());
        state.tasks.spawn_control(async move {
            loop {
                let next = async {
                    tokio::time::sleep(every).await;
                    watch.look(&looking).await
                };
                tokio::select! {
                    () = stop.cancelled() => return,
                    _ = next => {}
                }
            }
        });
    }

    /// Reads the files, and uses their certificate for new connections if it is valid.
    pub(super) async fn look(&self, state: &NodeState) -> CertificateReload {
        // One check at a time, so that a problem is logged once.
        let mut known = self.problem.lock().await;
        let (certificates, now) = (Arc::clone(&self.certificates), state.clock.now());
        let read = tokio::task::spawn_blocking(move || certificates.renew(theirs(now))).await;
        let renewal = read.map_err(std::io::Error::other).flatten();
        metrics::certificate_looked_at(renewal.is_ok());
        match renewal {
            Ok(renewal) => {
                *known = None;
                if renewal == CertificateRenewal::Unchanged {
                    return CertificateReload::Unchanged;
                }
                let ends = self.certificates.validity().ends;
                metrics::certificate_in_use(ours(ends));
                tracing::info!(%ends, "new connections get the renewed certificate");
                CertificateReload::Renewed
            }
            Err(error) => {
                let problem = error.to_string();
                if known.as_ref() != Some(&problem) {
                    tracing::error!(
                        problem,
                        "the renewed certificate cannot be used: the old one stays in use"
                    );
                    *known = Some(problem);
                }
                CertificateReload::Kept
            }
        }
    }
}

/// Converts a time to the transport's type; the transport knows none of ours.
fn theirs(moment: Timestamp) -> jiff::Timestamp {
    let ours = jiff::Timestamp::from_microsecond(moment.unix_micros());
    ours.unwrap_or(jiff::Timestamp::MAX)
}

fn ours(moment: jiff::Timestamp) -> Timestamp {
    Timestamp::from_unix_micros(moment.as_microsecond())
}
