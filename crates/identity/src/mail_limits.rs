//! How many emails may be requested, so that no address is flooded and the email that matters still
//! arrives.
//!
//! What a network requests is limited at the request, separately for each purpose, and a refusal
//! says so. What an address receives is limited silently when the email is written: the caller
//! finds out nothing about the address, and an email that is not sent is not counted. An email is
//! skipped only while the links of earlier ones to the same address still work.

use std::net::IpAddr;

use domain::customer::Email;
use domain::id::CustomerId;
use domain::mail::LinkPurpose;
use domain::time::Timestamp;
use emails::EmailRequest;
use failures::Failure;
use settings::RateLimitsSection;
use web::middleware::network_limit::NetworkLimiter;
use web::middleware::rate_limit::{RateLimiter, RateQuota};

/// The number of addresses and networks that are remembered.
const REMEMBERED_MAX: usize = 100_000;

/// The limits of this node.
pub struct MailLimits {
    confirmations: NetworkLimiter,
    resets: NetworkLimiter,
    changes: NetworkLimiter,
    /// Changes of address requested by a customer.
    changes_of_customer: RateLimiter<CustomerId>,
    /// Emails to an address at the request of one network or customer.
    to_address_for: RateLimiter<(LinkPurpose, Email, String)>,
    /// Emails to an address, at anyone's request.
    to_address: RateLimiter<(LinkPurpose, Email)>,
}

/// An email that is being sent. Unless `done` is called, it is not counted.
pub struct EmailSending<'a> {
    limits: &'a MailLimits,
    counted: Option<AskedEmail>,
    /// Whether it is also counted for the address in total.
    in_all: bool,
    now: Timestamp,
}

/// The counters for an email.
struct AskedEmail {
    purpose: LinkPurpose,
    email: Email,
    by: String,
}

impl MailLimits {
    /// Starts without emails.
    pub fn new(rates: &RateLimitsSection) -> Self {
        let by_network = || {
            NetworkLimiter::new(
                RateQuota::per_hour(rates.mails_per_network_per_hour),
                REMEMBERED_MAX,
            )
        };
        let one = RateQuota::per_hour(rates.mails_per_address_per_hour);
        let all = RateQuota::per_hour(rates.mails_per_address_in_all_per_hour);
        Self {
            confirmations: by_network(),
            resets: by_network(),
            changes: by_network(),
            changes_of_customer: RateLimiter::new(one, REMEMBERED_MAX),
            to_address_for: RateLimiter::new(one, REMEMBERED_MAX),
            to_address: RateLimiter::new(all, REMEMBERED_MAX),
        }
    }

    /// Counts a request for an email of this purpose from a network. Says nothing about whether one
    /// is sent.
    pub fn ask(&self, purpose: LinkPurpose, ip: IpAddr, now: Timestamp) -> Result<(), Failure> {
        let limiter = match purpose {
            LinkPurpose::ConfirmEmail => &self.confirmations,
            LinkPurpose::ResetPassword => &self.resets,
            LinkPurpose::ChangeEmail => &self.changes,
        };
        allowed(limiter.check(ip, now).and_then(|decision| decision.retry_after_ms))
    }

    /// Counts a customer's request to change its address.
    pub fn ask_change(
        &self,
        customer: CustomerId,
        ip: IpAddr,
        now: Timestamp,
    ) -> Result<(), Failure> {
        self.ask(LinkPurpose::ChangeEmail, ip, now)?;
        allowed(self.changes_of_customer.check(customer, 1, now).retry_after_ms)
    }

    /// Counts an email to its address; `None` if it must be skipped.
    pub fn send(&self, letter: &EmailRequest, now: Timestamp) -> Option<EmailSending<'_>> {
        let Some(asked) = AskedEmail::of(letter) else {
            return Some(EmailSending { limits: self, counted: None, in_all: false, now });
        };
        let one = self.to_address_for.check(asked.one(), 1, now);
        if one.retry_after_ms.is_some() {
            return None;
        }
        let in_all = self.to_address.check(asked.all(), 1, now).retry_after_ms.is_none();
        // The links of other customers' changes are useless to this customer, so the first change
        // that a customer requests is always sent.
        let is_first = one.remaining + 1 == one.limit;
        let is_sent = in_all || (asked.purpose == LinkPurpose::ChangeEmail && is_first);
        let sending = EmailSending { limits: self, counted: Some(asked), in_all, now };
        // If it is skipped, dropping `sending` gives back what it was counted in.
        is_sent.then_some(sending)
    }

    /// Forgets entries that no longer limit anything. Called by housekeeping.
    pub fn forget_idle(&self, now: Timestamp) {
        for networks in [&self.confirmations, &self.resets, &self.changes] {
            networks.forget_idle(now);
        }
        self.changes_of_customer.forget_idle(now);
        self.to_address_for.forget_idle(now);
        self.to_address.forget_idle(now);
    }
}

impl AskedEmail {
    /// `None` for an email that was not requested by naming an address.
    fn of(letter: &EmailRequest) -> Option<Self> {
        let (purpose, email, by) = match letter {
            EmailRequest::ConfirmEmail { email, asked_by: Some(by) } => {
                (LinkPurpose::ConfirmEmail, email, by.clone())
            }
            EmailRequest::ResetPassword { email, asked_by: Some(by) } => {
                (LinkPurpose::ResetPassword, email, by.clone())
            }
            EmailRequest::ChangeEmail { customer, email } => {
                (LinkPurpose::ChangeEmail, email, customer.to_string())
            }
            _ => return None,
        };
        Some(Self { purpose, email: email.clone(), by })
    }

    fn one(&self) -> (LinkPurpose, Email, String) {
        (self.purpose, self.email.clone(), self.by.clone())
    }

    fn all(&self) -> (LinkPurpose, Email) {
        (self.purpose, self.email.clone())
    }
}

impl EmailSending<'_> {
    /// The email was sent.
    pub fn done(mut self) {
        self.counted = None;
    }
}

impl Drop for EmailSending<'_> {
    fn drop(&mut self) {
        if let Some(asked) = self.counted.take() {
            self.limits.to_address_for.give_back(asked.one(), 1, self.now);
            if self.in_all {
                self.limits.to_address.give_back(asked.all(), 1, self.now);
            }
        }
    }
}

fn allowed(retry_after_ms: Option<i64>) -> Result<(), Failure> {
    retry_after_ms.map_or(Ok(()), |retry_after_ms| Err(Failure::TooManyMails { retry_after_ms }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_unix_micros(1_800_000_000_000_000);

    fn limits() -> MailLimits {
        let mut rates = settings::Config::from_toml("").unwrap().rate_limits;
        rates.mails_per_address_per_hour = 3;
        rates.mails_per_address_in_all_per_hour = 6;
        MailLimits::new(&rates)
    }

    fn email() -> Email {
        "ada@example.com".parse().unwrap()
    }

    fn reset(by: &str) -> EmailRequest {
        EmailRequest::ResetPassword { email: email(), asked_by: Some(by.to_owned()) }
    }

    fn change(by: u8) -> EmailRequest {
        EmailRequest::ChangeEmail { customer: CustomerId::new(NOON, [by; 10]), email: email() }
    }

    fn is_sent(limits: &MailLimits, letter: &EmailRequest, now: Timestamp) -> bool {
        limits.send(letter, now).map(EmailSending::done).is_some()
    }

    #[test]
    fn requests_from_one_network_do_not_limit_another() {
        let limits = limits();

        let of_stranger = [(); 5].map(|()| is_sent(&limits, &reset("203.0.113.7"), NOON));

        assert_eq!(of_stranger, [true, true, true, false, false]);
        assert!(is_sent(&limits, &reset("198.51.100.1"), NOON));
    }

    #[test]
    fn each_purpose_has_its_own_limit() {
        let limits = limits();
        for number in 0..6 {
            assert!(is_sent(&limits, &reset(&number.to_string()), NOON));
        }
        assert!(!is_sent(&limits, &reset("7"), NOON));

        let confirm = EmailRequest::ConfirmEmail { email: email(), asked_by: Some("7".to_owned()) };

        assert!(is_sent(&limits, &confirm, NOON));
    }

    #[test]
    fn unsent_emails_are_not_counted() {
        let limits = limits();
        for _ in 0..20 {
            assert!(limits.send(&reset("203.0.113.7"), NOON).is_some());
        }

        assert!(is_sent(&limits, &reset("203.0.113.7"), NOON));
    }

    /// Whatever others request: if an email is skipped, an earlier one was sent so recently that
    /// its link stays valid for at least half of its lifetime.
    #[test]
    fn reset_is_skipped_only_while_an_earlier_link_stays_valid() {
        let limits = limits();
        let mut last_sent = None;
        for second in (0..4 * 3_600).step_by(30) {
            let now = NOON.plus_seconds(second);
            for asker in 0..10 {
                if is_sent(&limits, &reset(&asker.to_string()), now) {
                    last_sent = Some(now);
                }
                let age_s = now.micros_since(last_sent.unwrap()) / 1_000_000;
                assert!(age_s <= LinkPurpose::ResetPassword.lifetime_s() / 2, "{second}: {age_s}");
            }
        }
    }

    #[test]
    fn first_change_of_a_customer_is_always_sent() {
        let limits = limits();
        for customer in 0..6 {
            assert!(is_sent(&limits, &change(customer), NOON));
        }

        assert!(is_sent(&limits, &change(7), NOON));
        assert!(!is_sent(&limits, &change(7), NOON), "the address has received too many");
    }

    #[test]
    fn registration_emails_are_not_limited_here() {
        let limits = limits();
        let letter = EmailRequest::ConfirmEmail { email: email(), asked_by: None };

        assert!((0..20).all(|_| is_sent(&limits, &letter, NOON)));
    }
}
