//! What counts as drift.

use super::*;

const ALPHA: Platform = Platform::ALPHA;
const RULE: DriftRule = DriftRule {
    window_s: 60,
    calls_min: 10,
    accounts_min: 3,
    customers_min: 3,
    rise_percent: 30,
    end_percent: 10,
    baseline_s: 3_600,
};

/// Calls of some customers, each with one account, at a time that the test moves.
struct Trial {
    book: DriftBook,
    now: Timestamp,
    began: usize,
}

impl Trial {
    fn new() -> Self {
        let book = DriftBook::new(&Catalog::built_in().unwrap(), RULE);
        Self { book, now: Timestamp::from_unix_micros(0).plus_seconds(1_000_000), began: 0 }
    }

    /// The same after two windows of good calls of all customers.
    fn with_history() -> Self {
        let mut trial = Self::new();
        for _ in 0..12 {
            trial.round(0..8, 1, None);
            trial.pass(10);
        }
        trial
    }

    fn pass(&mut self, seconds: i64) {
        self.now = self.now.plus_seconds(seconds);
    }

    fn call(&mut self, customer: u8, account: &str, failure: Option<DriftKind>) {
        let mut distinct = [customer; 10];
        distinct[0] = 0;
        let caller = CustomerId::new(Timestamp::from_unix_micros(0), distinct);
        let response = DriftResponse {
            platform: ALPHA,
            route: DriftRoute::listed(3),
            account: (caller, &account.parse().unwrap()),
            failure,
            at: self.now,
        };
        self.began += usize::from(self.book.note(&response));
    }

    fn round(&mut self, customers: std::ops::Range<u8>, calls: usize, failure: Option<DriftKind>) {
        for customer in customers {
            for _ in 0..calls {
                self.call(customer, "ada", failure);
            }
        }
    }

    /// Kind, whether it is one route, and share of everything that is degraded.
    fn found(&self) -> Vec<(DriftKind, bool, u64)> {
        let found = self.book.degradations(ALPHA, self.now);
        found.iter().map(|one| (one.kind, one.route.is_some(), one.share_percent)).collect()
    }
}

#[test]
fn a_jump_for_several_customers_begins_and_ends_by_itself() {
    let mut trial = Trial::with_history();
    assert_eq!(trial.found(), []);

    trial.pass(60);
    let since = trial.now;
    trial.round(0..8, 4, Some(DriftKind::Unauthorized));

    let kinds: Vec<_> =
        trial.found().iter().map(|(kind, of_route, _)| (*kind, *of_route)).collect();
    assert_eq!(kinds, [(DriftKind::Unauthorized, false), (DriftKind::Unauthorized, true)]);
    assert_eq!(trial.book.degradations(ALPHA, trial.now)[1].since, since);
    assert_eq!(trial.began, 1, "the whole platform and the route begin together");
    assert!(trial.book.is_degraded(ALPHA, DriftKind::Unauthorized));
    assert!(!trial.book.is_degraded(Platform::BETA, DriftKind::Unauthorized));

    // Half as many failures are still far above the usual.
    trial.pass(30);
    trial.round(0..8, 4, None);
    assert_eq!(trial.found().len(), 2);
    trial.round(0..8, 40, None);
    assert_eq!(trial.found(), []);
}

#[test]
fn it_ends_when_nobody_calls_any_more() {
    let mut trial = Trial::with_history();
    trial.pass(60);
    trial.round(0..8, 4, Some(DriftKind::Envelope));
    assert_eq!(trial.found().len(), 2);

    trial.pass(61);
    trial.book.end_old(trial.now);

    assert!(!trial.book.is_degraded(ALPHA, DriftKind::Envelope));
}

#[test]
fn a_404_is_counted_for_its_route_only() {
    let mut trial = Trial::with_history();
    trial.pass(60);

    trial.round(0..8, 4, Some(DriftKind::NotFound));

    assert_eq!(trial.found(), [(DriftKind::NotFound, true, trial.found()[0].2)]);
    assert_eq!(trial.began, 0, "only refused credentials concern the marks of accounts");
}

#[test]
fn one_customer_does_not_degrade_a_platform() {
    let mut trial = Trial::with_history();
    trial.pass(60);
    trial.round(1..8, 4, None);

    // Many failing accounts of one customer, and a few single failures of others.
    for account in ["a", "b", "c", "d", "e"] {
        for _ in 0..200 {
            trial.call(0, account, Some(DriftKind::NotFound));
            trial.call(0, account, Some(DriftKind::Unauthorized));
        }
    }
    trial.round(1..3, 1, Some(DriftKind::NotFound));
    trial.round(1..3, 1, Some(DriftKind::Unauthorized));

    assert_eq!(trial.found(), []);
}

#[test]
fn few_calls_or_few_accounts_do_not_degrade_a_platform() {
    let mut trial = Trial::with_history();
    trial.pass(60);
    trial.round(0..4, 2, Some(DriftKind::Forbidden));
    assert_eq!(trial.found(), [], "eight calls are fewer than ten");

    trial.pass(60);
    trial.round(0..2, 20, Some(DriftKind::Forbidden));
    assert_eq!(trial.found(), [], "two accounts are fewer than three");
}

#[test]
fn what_is_usual_is_no_jump() {
    let mut trial = Trial::new();
    trial.round(0..8, 10, Some(DriftKind::Forbidden));
    assert_eq!(trial.found(), [], "nothing is known of the time before");
    for _ in 0..20 {
        trial.round(0..8, 1, Some(DriftKind::Forbidden));
        trial.round(0..8, 1, None);
        trial.pass(10);
    }
    assert_eq!(trial.found(), []);

    // Half of all calls were refused before; now all are.
    trial.pass(60);
    trial.round(0..8, 10, Some(DriftKind::Forbidden));

    assert_eq!(trial.found().len(), 2);
}

#[test]
fn routes_beyond_the_limit_share_one_line() {
    let names = (0..LINES_MAX + 5).map(|number| format!("GET {number}")).collect();
    let lines = PlatformLines::new(names);

    for index in (0..LINES_MAX + 5).rev() {
        lines.of(DriftRoute::listed(index));
    }

    let name = |index| lines.of(DriftRoute::listed(index)).0.map(str::to_owned);
    assert_eq!(name(LINES_MAX + 4), Some(format!("GET {}", LINES_MAX + 4)));
    assert_eq!(name(0).as_deref(), Some(OTHER_ROUTES));
    assert_eq!(name(LINES_MAX + 5).as_deref(), Some(OTHER_ROUTES));
    assert_eq!(lines.of(DriftRoute::OTHER).0, Some(OTHER_ROUTES));
    assert_eq!(lines.all().count(), LINES_MAX + 2);
}
