//! One attempt at a request: it renews its lease while it runs, and records at the end what a
//! repetition gets.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use domain::id::{ChangeId, RunId};
use domain::time::Timestamp;
use failures::Failure;
use http::{HeaderMap, HeaderName, header};
use runtime::sealing::DataKey;
use store::idempotency::StoredAnswer;
use store::own_requests::{self, RequestEnd, RequestName};

use super::ending::AttemptEnding;
use super::identity::RequestSender;
use crate::WebState;
use crate::error::{ApiError, HarmlessFailure};
use crate::idempotency::{self, ResponseSeal};

/// How long the lease of an attempt lasts beyond its latest renewal, in seconds.
const LEASE_S: i64 = 60;
const RENEWED_EVERY: Duration = Duration::from_secs(20);

/// The headers of a response that a repetition gets. All others concern the original request.
const KEPT_HEADERS: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::LOCATION, header::ETAG, header::LINK];

/// An attempt that holds the claim on its request.
pub(super) struct RequestAttempt {
    /// The request.
    pub(super) name: RequestName,
    /// This attempt.
    pub(super) run: RunId,
    /// The id of the change that the request makes.
    pub(super) change: ChangeId,
    /// The key that seals its response.
    pub(super) data_key: DataKey,
    /// Who sent it.
    pub(super) identity: RequestSender,
    /// Whether it may run again if its outcome is unknown.
    pub(super) may_run_again: bool,
}

/// Until when the lease of an attempt that starts or renews now lasts.
pub(super) const fn leased_until(now: Timestamp) -> Timestamp {
    now.plus_seconds(LEASE_S)
}

impl RequestAttempt {
    /// Waits for the response and records how the attempt ended before it returns the response,
    /// because the caller may then repeat the request immediately.
    pub(super) async fn carry_out(
        self,
        web: &WebState,
        work: impl Future<Output = Response>,
    ) -> Result<Response, ApiError> {
        let mut response = tokio::select! {
            biased;
            response = work => response,
            never = self.keep_lease(web) => match never {},
        };
        let end = match AttemptEnding::of(&response) {
            AttemptEnding::Done => return self.store(web, response).await,
            AttemptEnding::Unstorable => RequestEnd::NotStored,
            AttemptEnding::Open => RequestEnd::RunAgain,
            AttemptEnding::Refused => RequestEnd::Freed,
            AttemptEnding::Unknown if self.may_run_again => {
                response.extensions_mut().insert(HarmlessFailure);
                RequestEnd::RunAgain
            }
            AttemptEnding::Unknown => RequestEnd::OutcomeUnknown,
        };
        self.end(web, end).await;
        Ok(response)
    }

    /// Renews the lease until the future is dropped. It runs beside the work, not between its
    /// steps, because both may wait for the same write lock.
    async fn keep_lease(&self, web: &WebState) -> Infallible {
        loop {
            tokio::time::sleep(RENEWED_EVERY).await;
            let until = leased_until(web.clock.now());
            match own_requests::renew(&web.store, &self.name, self.run, until).await {
                Ok(true) => {}
                Ok(false) => tracing::warn!(
                    "a request to one of the service's own routes ran longer than its lease"
                ),
                Err(error) => tracing::warn!(%error, "the lease of a request was not renewed"),
            }
        }
    }

    /// Stores the response of a request that was carried out.
    async fn store(&self, web: &WebState, response: Response) -> Result<Response, ApiError> {
        let (parts, body) = response.into_parts();
        // Responses of these routes are already in memory.
        let body = axum::body::to_bytes(body, usize::MAX).await.map_err(|error| {
            ApiError::Failure(Failure::Internal(format!(
                "a response could not be written: {error}"
            )))
        })?;
        let mut kept = HeaderMap::new();
        for name in &KEPT_HEADERS {
            kept.extend(parts.headers.get(name).map(|value| (name.clone(), value.clone())));
        }
        let is_small = body.len() <= web.config.http.limits.stored_answer_bytes_max;
        let stored = is_small.then(|| self.seal(web, parts.status, &kept, &body)).flatten();
        let end = match &stored {
            Some(answer) => {
                let permissions = self.identity.permissions_now(web).await;
                RequestEnd::Stored { answer, permissions }
            }
            None => RequestEnd::NotStored,
        };
        self.end(web, end).await;
        Ok(Response::from_parts(parts, Body::from(body)))
    }

    fn seal(
        &self,
        web: &WebState,
        status: http::StatusCode,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Option<StoredAnswer> {
        let place = ResponseSeal::of_request(&self.data_key, &self.name);
        idempotency::seal(&place, &web.random, (status, headers, body))
    }

    /// If recording fails, the lease is taken over in time, and repetitions are treated as after a
    /// crash.
    async fn end(&self, web: &WebState, end: RequestEnd<'_>) {
        if let Err(error) = own_requests::end(&web.store, &self.name, self.run, end).await {
            tracing::error!(%error, run.id = %self.run, "the end of a request was not recorded");
        }
    }
}
