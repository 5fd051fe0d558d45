//! A database with customers, and what writes their emails.

use std::sync::Arc;

use domain::credits::Credits;
use domain::customer::{Email, TrialState};
use domain::id::{AuditId, CustomerId, EntryId, JobId, KeyId, OrderId};
use domain::key::{KeyHash, KeyScope};
use domain::lots::LotSource;
use domain::time::Timestamp;
use emails::{EmailRequest, EmailsState};
use jobs::JobQueue;
use mail::OutgoingMail;
use runtime::sealing::{Keyring, MasterKey};
use runtime::{Clock, Random, Vault};
use settings::Config;
use store::audit::AuditEntry;
use store::cards::SavedCard;
use store::customers::{CustomerCreation, NewCustomer, PasswordHash};
use store::keys::{NewKey, NewSecret};
use store::ledger::CreditGrant;
use store::suspensions::SuspensionOutcome;
use store::testing::TestStore;
use store::top_up_settings::TopUpRequest;
use store::top_ups::{TopUpClaim, TopUpClaiming, TopUpOffer};

pub(crate) const NOW: Timestamp = Timestamp::from_unix_micros(1_795_262_400_000_000);
pub(crate) const BASE: &str = "https://api.example.com";
const PACK: TopUpOffer<'static> =
    TopUpOffer { pack_id: "pack_10", credits: Credits::from_whole(10), price_cents: 1_050 };

/// A service at [`BASE`], whose clock shows [`NOW`].
pub(crate) struct TestService {
    pub(crate) emails: EmailsState,
    // Removed with its folder when the test ends.
    _database: TestStore,
}

impl TestService {
    pub(crate) async fn start() -> Self {
        let database = store::testing::sqlite().await;
        let store = (*database).clone();
        let (clock, random) = (Clock::manual(NOW), Random::seeded(1));
        let keyring = Keyring::new(vec![MasterKey::generate("k1", &random)]).unwrap();
        let vault = Vault::open(store.clone(), keyring, random.clone(), clock.clone()).await;
        let config = Config::from_toml(&format!("[http]\npublic_base_url = \"{BASE}\"")).unwrap();
        let (vault, config) = (Arc::new(vault.unwrap()), Arc::new(config));
        let emails = EmailsState { store, clock, random, vault, config };
        Self { emails, _database: database }
    }

    /// A customer whose address was confirmed at this time, if it was.
    pub(crate) async fn customer(&self, email: &str, confirmed: Option<Timestamp>) -> CustomerId {
        let random = &self.emails.random;
        let secret = NewSecret {
            hash: KeyHash::from_bytes(&random.bytes::<32>()).unwrap(),
            shown_prefix: "cgw_live_0000".to_owned(),
            shown_suffix: "0000".to_owned(),
        };
        let new = NewCustomer {
            id: CustomerId::new(NOW, random.bytes()),
            email: address(email),
            name: "<b>Ada</b>".to_owned(),
            password_hash: PasswordHash::none(),
            email_verified_at: confirmed,
            trial: TrialState::Pending,
            created_at: NOW,
            first_key: NewKey {
                id: KeyId::new(NOW, random.bytes()),
                name: "first".to_owned(),
                secret,
                scope: KeyScope::Full,
                accounts: Vec::new(),
                monthly_budget: None,
                expires_at: None,
            },
        };
        let creation = store::customers::create(&self.emails.store, &new).await.unwrap();
        assert_eq!(creation, CustomerCreation::Created);
        new.id
    }

    pub(crate) async fn suspend(&self, customer: CustomerId) {
        let entry = AuditEntry {
            id: AuditId::new(NOW, self.emails.random.bytes()),
            customer,
            at: NOW,
            actor: "staff".to_owned(),
            action: "customer.suspended".to_owned(),
            details: String::new(),
        };
        let suspended = store::suspensions::suspend(&self.emails.store, "abuse", &entry).await;
        assert_eq!(suspended.unwrap(), SuspensionOutcome::Changed);
    }

    pub(crate) async fn close(&self, customer: CustomerId) {
        assert!(store::customers::disable(&self.emails.store, customer, NOW).await.unwrap());
    }

    pub(crate) async fn grant(&self, customer: CustomerId, credits: i64) {
        let entry = EntryId::new(NOW, self.emails.random.bytes());
        let grant = CreditGrant {
            entry,
            customer,
            amount: Credits::from_whole(credits),
            kind: "gift",
            source: "adj",
            source_id: &entry.to_string(),
            reference: None,
            lot: LotSource::Gift,
            expires_at: None,
            at: NOW,
        };
        store::ledger::grant(&self.emails.store, &grant).await.unwrap();
    }

    /// The order of an automatic charge of 10.50 dollars that has begun.
    pub(crate) async fn charged(&self, customer: CustomerId) -> OrderId {
        let store = &self.emails.store;
        let card = SavedCard {
            payment_method: "pm_1".to_owned(),
            brand: "visa".to_owned(),
            last4: "4242".to_owned(),
            exp_month: 12,
            exp_year: 2030,
            fingerprint: None,
        };
        store::processor_customers::link(store, customer, "cus_1", NOW).await.unwrap();
        store::cards::save(store, customer, &card, NOW).await.unwrap();
        let wish = TopUpRequest {
            customer,
            threshold: Credits::from_whole(5),
            pack_id: PACK.pack_id,
            daily_cap_cents: 10_000,
            at: NOW,
        };
        assert!(store::top_up_settings::turn_on(store, &wish).await.unwrap());
        let claim = TopUpClaim {
            customer,
            order: OrderId::new(NOW, self.emails.random.bytes()),
            offers: &[PACK],
            currency: "usd",
            livemode: false,
            at: NOW,
            leased_until: NOW.plus_seconds(60),
        };
        match store::top_ups::claim(store, &claim).await.unwrap() {
            TopUpClaiming::Claimed(top_up) => top_up.order,
            hindered @ TopUpClaiming::Hindered(_) => panic!("{hindered:?}"),
        }
    }

    /// Says of a charge that the bank wants the customer to confirm it.
    pub(crate) async fn wait_for_customer(&self, order: OrderId, letter: &EmailRequest) {
        let queue = JobQueue::new(self.emails.clock.clone(), self.emails.random.clone());
        let letter = emails::job(&queue, letter);
        let store = &self.emails.store;
        assert!(store::top_ups::wait_for_customer(store, order, "pi_1", &letter).await.unwrap());
    }

    /// The email, if it is still needed.
    pub(crate) async fn written(&self, letter: &EmailRequest) -> Option<OutgoingMail> {
        emails::write(&self.emails, letter, JobId::new(NOW, [7; 10])).await.unwrap()
    }
}

pub(crate) fn address(text: &str) -> Email {
    text.parse().unwrap()
}

/// The only link of an email that begins with this, up to the end of its line.
pub(crate) fn link<'m>(mail: &'m OutgoingMail, start: &str) -> &'m str {
    let mut found = mail.text.lines().filter(|line| line.starts_with(start));
    let link = found.next().unwrap_or_else(|| panic!("no {start} in {}", mail.text));
    assert_eq!(found.next(), None, "{}", mail.text);
    assert!(mail.html.contains(&format!("href=\"{link}\"")), "{}", mail.html);
    link
}
