//! One attempt at a request: run while its lease is renewed, and ended with what a repetition is to get.

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

/// An attempt that has not renewed its lease for so long has ended with its node.
const LEASE_S: i64 = 60;
const RENEWED_EVERY: Duration = Duration::from_secs(20);

/// What a repetition gets of the head of a response. All else is about the request that it was sent to.
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
    /// What seals its response.
    pub(super) data_key: DataKey,
    /// Who sent it.
    pub(super) identity: RequestSender,
    /// Whether it may run again when nobody knows how it ended.
    pub(super) may_run_again: bool,
}

/// When an attempt that begins or goes on now has lost its lease.
pub(super) const fn leased_until(now: Timestamp) -> Timestamp {
    now.plus_seconds(LEASE_S)
}

impl RequestAttempt {
    /// Waits for the response and writes down how the attempt ended, before anybody gets the response: whoever has it may
    /// repeat the request immediately.
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

    /// Renews the lease for as long as it is waited for. Beside the work, never between its steps: both may want the same
    /// turn to write.
    async fn keep_lease(&self, web: &WebState) -> Infallible {
        loop {
            tokio::time::sleep(RENEWED_EVERY).await;
            let until = leased_until(web.clock.now());
            match own_requests::renew(&web.store, &self.name, self.run, until).await {
                Ok(true) => {}
                Ok(false) => tracing::warn!("a request of ours ran longer than its lease"),
                Err(error) => tracing::warn!(%error, "the lease of a request was not renewed"),
            }
        }
    }

    /// Keeps the response of a request that was carried out.
    async fn store(&self, web: &WebState, response: Response) -> Result<Response, ApiError> {
        let (parts, body) = response.into_parts();
        // Responses of these routes are in memory already.
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
        let stored = is_small.then(|| self.seal(web, parts.status, (&kept, &body))).flatten();
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
        (headers, body): (&HeaderMap, &Bytes),
    ) -> Option<StoredAnswer> {
        let place = ResponseSeal::of_request(&self.data_key, &self.name);
        idempotency::seal(&place, &web.random, (status, headers, body))
    }

    /// A row that is not ended here has lost its lease a minute later, and then says the same or less.
    async fn end(&self, web: &WebState, end: RequestEnd<'_>) {
        if let Err(error) = own_requests::end(&web.store, &self.name, self.run, end).await {
            tracing::error!(%error, run.id = %self.run, "the end of a request was not written down");
        }
    }
}
