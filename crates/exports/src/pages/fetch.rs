//! One page fetched: the request, and what is tried again, how often, and after which pause.
//!
//! Only GETs leave from here, so trying again changes nothing on the platform, and nothing is marked as read.

use std::sync::Arc;

use bytes::Bytes;
use catalog::Dataset;
use catalog::dataset::{self, DatasetLocation, PagingRules, PagingStyle};
use domain::platform::Platform;
use domain::time::Timestamp;
use domain::window::DateWindow;
use failures::Failure;
use gateway::read::{self, OwnRead, ReadAnswer, ReadFailure};
use http::StatusCode;

use super::WantedList;
use super::fault::PageFault;
use super::resume_state::Next;
use super::taken::{self, TakenPage};
use crate::ExportsState;

/// The longest page, in bytes, decoded.
pub(super) const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A page that fails so often in a row is left to a later attempt.
const FAILURES_MAX: u32 = 6;
/// The platform may answer so often that there are too many requests before one page.
const PAUSES_MAX: u32 = 40;
/// All pauses before one page, in seconds.
const PAUSED_S_MAX: i64 = 900;
/// A page that is wrong is asked for again after so many seconds, each time.
const WRONG_PAUSES_S: [i64; 2] = [1, 5];
const BACK_OFF_MS_MIN: i64 = 500;
const BACK_OFF_MS_MAX: i64 = 16_000;

/// A page to be fetched.
#[derive(Clone, Copy)]
pub(super) struct PageRequest<'a> {
    pub(super) exports: &'a ExportsState,
    pub(super) wanted: &'a WantedList,
    pub(super) platform: Platform,
    pub(super) place: &'a DatasetLocation,
    pub(super) paging: &'a PagingRules,
    pub(super) next: &'a Next,
    pub(super) number: u64,
    /// The fan whose conversation is not there if the platform does not find its first page.
    pub(super) fan: Option<&'a str>,
}

/// How often this page failed or had to wait.
#[derive(Default)]
struct PageTries {
    failures: u32,
    pauses: u32,
}

impl PageRequest<'_> {
    /// The body of the page, tried again while that can help; nothing where the platform does not know the row or the
    /// cursor that it was asked for by.
    async fn page(&self) -> Result<Option<Bytes>, PageFault> {
        let query = self.query();
        let read = OwnRead {
            label: &self.wanted.label,
            path: &self.place.path,
            query: &query,
            bytes_max: PAGE_BYTES_MAX,
        };
        let account = (self.wanted.customer, &self.wanted.account);
        let began = self.exports.clock.now();
        let mut tries = PageTries::default();
        loop {
            self.check_time()?;
            let answer = Box::pin(read::get(&self.exports.gateway, account, &read)).await;
            let wait_ms = match answer {
                Ok(answer) => match self.judge(answer, &mut tries)? {
                    PageVerdict::Page(body) => return Ok(Some(body)),
                    PageVerdict::Lost => return Ok(None),
                    PageVerdict::Again(wait_ms) => wait_ms,
                },
                Err(failure) => self.again(failure, &mut tries)?,
            };
            let now = self.exports.clock.now();
            let until = now.plus_micros(wait_ms.saturating_mul(domain::time::MICROS_PER_MILLI));
            if until > began.plus_seconds(PAUSED_S_MAX) {
                return Err(busy());
            }
            self.wait(until).await;
        }
    }

    async fn wait(&self, until: Timestamp) {
        self.wanted.waits.set(Some(until));
        self.exports.clock.sleep_until(until).await;
        self.wanted.waits.set(None);
    }

    /// The page taken apart, or nothing as [`PageRequest::page`]. One that is wrong by itself is asked for again, after a second
    /// and after five more.
    pub(super) async fn taken(
        &self,
        dataset: &Arc<Dataset>,
        window: DateWindow,
        check: impl Fn(&TakenPage) -> Result<(), PageFault>,
    ) -> Result<Option<TakenPage>, PageFault> {
        let mut left = WRONG_PAUSES_S.iter();
        loop {
            let fault = match self.try_taken(dataset, window).await {
                Ok(Some(taken)) => match check(&taken) {
                    Ok(()) => return Ok(Some(taken)),
                    Err(fault) => fault,
                },
                Ok(None) => return Ok(None),
                Err(fault) => fault,
            };
            let Some(pause_s) = left.next().filter(|_| fault.is_of_one_page()) else {
                return Err(fault);
            };
            tracing::debug!(page = self.number, code = fault.code, "a page is wrong");
            self.wait(self.exports.clock.now().plus_seconds(*pause_s)).await;
        }
    }

    async fn try_taken(
        &self,
        dataset: &Arc<Dataset>,
        window: DateWindow,
    ) -> Result<Option<TakenPage>, PageFault> {
        let Some(body) = self.page().await? else { return Ok(None) };
        self.check_time()?;
        taken::take(dataset, body, window, self.number).await.map(Some)
    }

    /// A conversation's time is over when this says so: before and after every request.
    fn check_time(&self) -> Result<(), PageFault> {
        match self.wanted.limits.ends_at {
            Some(end) if self.exports.clock.now() >= end => {
                let message = format!(
                    "the time for this export was over before page {} was read",
                    self.number
                );
                Err(PageFault::last("took_too_long", message))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The raw query with what turns to this page.
    fn query(&self) -> String {
        let paging = self.paging;
        let size = match self.next {
            Next::Page { size, .. } => *size,
            _ => u64::from(paging.size),
        };
        let mut query = self.place.query.clone();
        dataset::add(&mut query, &paging.size_parameter, &size.to_string());
        let turn = match self.next {
            Next::First | Next::Last => match paging.style {
                PagingStyle::Offset => Some("0".to_owned()),
                PagingStyle::Page => Some("1".to_owned()),
                PagingStyle::Cursor | PagingStyle::BeforeId => None,
            },
            Next::Offset(number) | Next::Page { number, .. } => Some(number.to_string()),
            Next::Cursor(cursor) | Next::Before(cursor) => Some(cursor.clone()),
        };
        if let Some(turn) = turn {
            dataset::add(&mut query, &paging.parameter, &turn);
        }
        query
    }

    fn judge(&self, answer: ReadAnswer, tries: &mut PageTries) -> Result<PageVerdict, PageFault> {
        let number = self.number;
        match answer.status {
            StatusCode::OK if answer.is_unwrapped => Ok(PageVerdict::Page(answer.body)),
            StatusCode::OK => Err(PageFault::malformed(
                number,
                "it does not come in an envelope that says success",
            )),
            StatusCode::NO_CONTENT => Ok(PageVerdict::Page(Bytes::new())),
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::GONE
                if matches!(self.next, Next::Cursor(_) | Next::Before(_)) =>
            {
                Ok(PageVerdict::Lost)
            }
            StatusCode::TOO_MANY_REQUESTS => self.paused(tries).map(PageVerdict::Again),
            StatusCode::UNAUTHORIZED => Err(self.refused()),
            StatusCode::NOT_FOUND if number == 1 && self.fan.is_some() => Err(PageFault::last(
                "chat_not_found",
                format!("there is no conversation with the account {}", self.fan.unwrap_or("")),
            )),
            status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
                self.failed(&format!("it answered {status}"), tries).map(PageVerdict::Again)
            }
            status => Err(PageFault::last(
                "platform_refused",
                format!("the platform answered {status} to the request for page {number}"),
            )),
        }
    }

    /// The platform refuses the credentials: of everybody, or of this account as far as anybody knows. That is asked
    /// again, since a platform that begins to refuse everybody is known only after it has refused several.
    fn refused(&self) -> PageFault {
        if self.exports.gateway.accounts().platform_health.refusing_since(self.platform).is_some() {
            return PageFault::refusing(self.platform);
        }
        let message = format!(
            "the platform refused the account's credentials at page {}; connect the account again",
            self.number
        );
        PageFault::for_now("credentials_refused", message)
    }

    /// How long to wait before the next try, in milliseconds, or that there is none.
    fn again(&self, failure: ReadFailure, tries: &mut PageTries) -> Result<i64, PageFault> {
        match failure {
            // Nothing was sent; how long that may go on is bounded by the time of all pauses.
            ReadFailure::Wait { for_ms } => Ok(for_ms.max(1)),
            ReadFailure::Failed(error) => self.failed(&error.to_string(), tries),
            ReadFailure::TooLarge => Err(PageFault::last(
                "page_too_large",
                format!("page {} is longer than {PAGE_BYTES_MAX} bytes", self.number),
            )),
            ReadFailure::Account(error) => match error {
                Failure::AccountNotFound
                | Failure::Account(_)
                | Failure::CredentialError
                | Failure::PlatformNotOffered(_) => Err(unavailable(&error)),
                Failure::PlatformRefusing(platform) => Err(PageFault::refusing(platform)),
                other => self.failed(&other.to_string(), tries),
            },
        }
    }

    fn paused(&self, tries: &mut PageTries) -> Result<i64, PageFault> {
        tries.pauses += 1;
        if tries.pauses > PAUSES_MAX {
            return Err(busy());
        }
        // What the platform asked for is known to the account by now and is waited for at the next try.
        Ok(self.back_off_ms(tries.pauses))
    }

    fn failed(&self, why: &str, tries: &mut PageTries) -> Result<i64, PageFault> {
        tries.failures += 1;
        tracing::debug!(page = self.number, tries = tries.failures, why, "a page did not come");
        if tries.failures >= FAILURES_MAX {
            let message = format!(
                "page {} did not come after {FAILURES_MAX} tries; the last time: {why}",
                self.number
            );
            return Err(PageFault::for_now("platform_unavailable", message));
        }
        Ok(self.back_off_ms(tries.failures))
    }

    /// Doubles with each try, and up to a quarter longer by chance.
    fn back_off_ms(&self, tries: u32) -> i64 {
        let doubled = BACK_OFF_MS_MIN << tries.saturating_sub(1).min(6);
        let pause = doubled.min(BACK_OFF_MS_MAX);
        pause + pause * i64::from(self.exports.random.below(100)) / 400
    }
}

enum PageVerdict {
    Page(Bytes),
    /// The platform does not know the place.
    Lost,
    /// After so many milliseconds.
    Again(i64),
}

fn busy() -> PageFault {
    PageFault::for_now("platform_busy", "the platform asked for pauses until this attempt gave up")
}

/// The account cannot be used, which another attempt does not change.
pub(super) fn unavailable(error: &Failure) -> PageFault {
    PageFault::last("account_unavailable", error.to_string())
}
