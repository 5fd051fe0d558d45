//! Fetches one page: the request, and the rules for retries and pauses.
//!
//! Only GETs are sent, so a retry changes nothing on the platform, and nothing is marked as read.

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

use super::fault::PageFault;
use super::next_page::NextPage;
use super::taken::{self, TakenPage};
use super::wanted_list::WantedList;
use crate::ExportsState;

/// The longest page, in bytes, decoded.
pub(super) const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The number of failures of a page after which it is left to a later attempt.
const FAILURES_MAX: u32 = 6;
/// How often the platform may respond that there are too many requests before one page.
const PAUSES_MAX: u32 = 40;
/// The maximum total of all pauses before one page, in seconds.
const PAUSED_S_MAX: i64 = 900;
/// The pauses before a malformed page is requested again, in seconds.
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
    pub(super) next: &'a NextPage,
    pub(super) number: u64,
    /// The fan, if a 404 on the first page means that there is no conversation with this fan.
    pub(super) fan: Option<&'a str>,
}

/// How often this page has failed or had to wait.
#[derive(Default)]
struct PageTries {
    failures: u32,
    pauses: u32,
}

impl PageRequest<'_> {
    /// The body of the page, retried while that can help. `None` if the platform does not know the
    /// row or cursor that the request names.
    async fn page(&self) -> Result<Option<Bytes>, PageFault> {
        let query = self.query();
        let read = OwnRead {
            label: &self.wanted.label,
            path: &self.place.path,
            query: &query,
            bytes_max: PAGE_BYTES_MAX,
        };
        let (customer, account) = (self.wanted.customer, &self.wanted.account);
        let began = self.exports.clock.now();
        let mut tries = PageTries::default();
        loop {
            self.check_time()?;
            let answer = Box::pin(read::get(&self.exports.gateway, customer, account, &read)).await;
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

    /// The page, parsed, or `None` as for [`PageRequest::page`]. A page that is malformed by itself
    /// is requested again, after one second and after five more.
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
            tracing::debug!(page = self.number, code = fault.code, "a page is malformed");
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

    /// Checks a conversation's time limit, before and after every request.
    fn check_time(&self) -> Result<(), PageFault> {
        match self.wanted.limits.ends_at {
            Some(end) if self.exports.clock.now() >= end => {
                let message = format!(
                    "the time limit of this export was reached before page {} was read",
                    self.number
                );
                Err(PageFault::last("took_too_long", message))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The raw query, with the parameters for this page.
    fn query(&self) -> String {
        let paging = self.paging;
        let size = match self.next {
            NextPage::Page { size, .. } => *size,
            _ => u64::from(paging.size),
        };
        let mut query = self.place.query.clone();
        dataset::add(&mut query, &paging.size_parameter, &size.to_string());
        let turn = match self.next {
            NextPage::First | NextPage::Last => match paging.style {
                PagingStyle::Offset => Some("0".to_owned()),
                PagingStyle::Page => Some("1".to_owned()),
                PagingStyle::Cursor | PagingStyle::BeforeId => None,
            },
            NextPage::Offset(number) | NextPage::Page { number, .. } => Some(number.to_string()),
            NextPage::Cursor(cursor) | NextPage::Before(cursor) => Some(cursor.clone()),
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
            StatusCode::OK => {
                Err(PageFault::malformed(number, "it has no envelope that reports success"))
            }
            StatusCode::NO_CONTENT => Ok(PageVerdict::Page(Bytes::new())),
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::GONE
                if matches!(self.next, NextPage::Cursor(_) | NextPage::Before(_)) =>
            {
                Ok(PageVerdict::Lost)
            }
            StatusCode::TOO_MANY_REQUESTS => self.paused(tries).map(PageVerdict::Again),
            StatusCode::UNAUTHORIZED => Err(self.refused()),
            StatusCode::NOT_FOUND if number == 1 && self.fan.is_some() => Err(PageFault::last(
                "chat_not_found",
                format!("there is no conversation with the account {}", self.fan.unwrap_or("")),
            )),
            status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => self
                .failed(&format!("the platform responded {status}"), tries)
                .map(PageVerdict::Again),
            status => Err(PageFault::last(
                "platform_refused",
                format!("the platform responded {status} to the request for page {number}"),
            )),
        }
    }

    /// The platform refuses the credentials, either of all accounts or, as far as is known, of this
    /// one. Another attempt follows, because a refusal of all accounts is known only after several
    /// have been refused.
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

    /// How long to wait before the next try, in milliseconds, or the fault if there is none.
    fn again(&self, failure: ReadFailure, tries: &mut PageTries) -> Result<i64, PageFault> {
        match failure {
            // Nothing was sent; the total time of such waits is limited by the caller.
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
        // The account knows the pause that the platform asked for; the next try waits for it.
        Ok(self.back_off_ms(tries.pauses))
    }

    fn failed(&self, why: &str, tries: &mut PageTries) -> Result<i64, PageFault> {
        tries.failures += 1;
        tracing::debug!(
            page = self.number,
            tries = tries.failures,
            why,
            "a page could not be fetched"
        );
        if tries.failures >= FAILURES_MAX {
            let message = format!(
                "page {} could not be fetched after {FAILURES_MAX} tries; the last error: {why}",
                self.number
            );
            return Err(PageFault::for_now("platform_unavailable", message));
        }
        Ok(self.back_off_ms(tries.failures))
    }

    /// Exponential backoff, with up to a quarter of random jitter.
    fn back_off_ms(&self, tries: u32) -> i64 {
        let doubled = BACK_OFF_MS_MIN << tries.saturating_sub(1).min(6);
        let pause = doubled.min(BACK_OFF_MS_MAX);
        pause + pause * i64::from(self.exports.random.below(100)) / 400
    }
}

enum PageVerdict {
    Page(Bytes),
    /// The platform does not know the row or cursor.
    Lost,
    /// Retry after this number of milliseconds.
    Again(i64),
}

fn busy() -> PageFault {
    PageFault::for_now(
        "platform_busy",
        "the platform kept asking for pauses until this attempt gave up",
    )
}

/// The account cannot be used, which another attempt does not change.
pub(super) fn unavailable(error: &Failure) -> PageFault {
    PageFault::last("account_unavailable", error.to_string())
}
