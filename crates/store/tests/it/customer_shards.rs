//! The ledger can be cut by customer: what metering does for one customer depends on no other
//! customer's rows. `docs/scaling.md` says what that is for, and what is still in the way.

use std::collections::BTreeSet;

use domain::charge::Outcome;
use domain::id::{CallId, CustomerId, EntryId};
use domain::lots::LotSource;
use proptest::prelude::*;
use store::accounts::ConnectionOutcome;
use store::keys::NewKey;
use store::ledger::CreditGrant;
use store::metering::{CallResolution, Hold, IdempotencyClaim};
use store::testing::{self, TestStore};
use store::{Store, call_totals};

use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, credits, new_account, new_customer, node,
    resolution, unique,
};

/// Everything that metering writes, one line for each row.
const WRITTEN: [&str; 6] = [
    "select 'call ' || id || ' ' || customer_id || ' ' || state || ' ' || coalesce(outcome, '-') || ' '
        || coalesce(cast(credits as text), '-') || ' ' || coalesce(cast(expires_at as text), '-') as line from calls",
    "select 'credits ' || customer_id || ' ' || cast(granted as text) || ' ' || cast(removed as text) || ' '
        || cast(spent as text) || ' ' || cast(held as text) || ' ' || cast(available as text) || ' '
        || cast(debt as text) as line from customer_credits",
    "select 'day ' || customer_id || ' ' || key_id || ' ' || cast(day as text) || ' '
        || cast(sum(calls) as text) || ' ' || cast(sum(credits) as text) || ' ' || cast(sum(ok) as text)
        as line from usage_by_day group by customer_id, key_id, day",
    "select 'route ' || customer_id || ' ' || key_id || ' ' || cast(day as text) || ' ' || creator_id || ' '
        || route || ' ' || cast(sum(calls) as text) || ' ' || cast(sum(errors) as text) || ' '
        || cast(max(last_at) as text) as line
        from usage_by_route group by customer_id, key_id, day, creator_id, route",
    "select 'key ' || customer_id || ' ' || key_hash || ' ' || call_id || ' ' || answer_state || ' '
        || fingerprint as line from idempotency",
    "select 'total ' || customer_id || ' ' || cast(day as text) || ' ' || key_id || ' ' || outcome || ' '
        || cast(calls as text) || ' ' || cast(credits as text) as line from call_totals",
];

/// What happens to a ledger, to calls of both customers together.
#[derive(Debug, Clone)]
enum Round {
    Holds(Vec<WantedHold>),
    Ends(Vec<WantedEnd>),
    /// Calls, by their place among all.
    Renewals(Vec<usize>),
    Sweep,
    Crash,
    RollUp,
}

#[derive(Debug, Clone, Copy)]
struct WantedHold {
    who: usize,
    cost: i64,
    /// The customers use the same keys.
    idempotency_key: Option<u8>,
    fingerprint: u8,
}

#[derive(Debug, Clone, Copy)]
struct WantedEnd {
    which: usize,
    outcome: Outcome,
    frees_key: bool,
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let hold = (0_usize..2, 0_i64..6, prop::option::of(0_u8..3), 0_u8..2).prop_map(
        |(who, cost, idempotency_key, fingerprint)| WantedHold {
            who,
            cost,
            idempotency_key,
            fingerprint,
        },
    );
    let end = (0_usize..64, prop::sample::select(Outcome::ALL), any::<bool>())
        .prop_map(|(which, outcome, frees_key)| WantedEnd { which, outcome, frees_key });
    let round = prop_oneof![
        6 => prop::collection::vec(hold, 1..12).prop_map(Round::Holds),
        6 => prop::collection::vec(end, 1..12).prop_map(Round::Ends),
        1 => prop::collection::vec(0_usize..64, 1..4).prop_map(Round::Renewals),
        1 => Just(Round::Sweep),
        1 => Just(Round::Crash),
        1 => Just(Round::RollUp),
    ];
    prop::collection::vec(round, 1..14)
}

/// A database, and the customers whose rows it has.
struct Ledger {
    store: TestStore,
    metering: Option<TestMetering>,
    customers: Vec<CustomerId>,
}

impl Ledger {
    fn metering(&self) -> &TestMetering {
        self.metering.as_ref().unwrap()
    }

    fn has(&self, hold: &Hold) -> bool {
        self.customers.contains(&hold.customer)
    }

    /// Requests all at the same time. Returns what became of each.
    async fn hold(&self, holds: &[Hold]) -> Vec<(CallId, String)> {
        let mut waiting = Vec::new();
        let own = holds.iter().filter(|hold| self.has(hold));
        for hold in own {
            waiting.push((hold.call_id, self.metering().meter.reserve(hold.clone()).await));
        }
        let mut outcomes = Vec::new();
        for (call_id, reserved) in waiting {
            let outcome = match reserved {
                Ok(mut reservation) => format!("{:?}", reservation.durable().await),
                Err(refusal) => format!("{refusal:?}"),
            };
            outcomes.push((call_id, outcome));
        }
        outcomes
    }

    /// Settles all at the same time. Returns which settlements count.
    async fn end(&self, ends: &[(Hold, CallResolution)]) -> Vec<(CallId, String)> {
        let own = ends.iter().filter(|(hold, _)| self.has(hold));
        let waiting: Vec<_> = own
            .map(|(hold, end)| (hold.call_id, self.metering().meter.resolve(end.clone())))
            .collect();
        let mut outcomes = Vec::new();
        for (call_id, ended) in waiting {
            outcomes.push((call_id, ended.await.to_string()));
        }
        outcomes
    }

    async fn crash(&mut self) {
        self.metering.take().unwrap().crash().await;
        self.metering = Some(TestMetering::recovered(&self.store, node()).await.0);
    }

    /// Everything that metering has written, except calls that only fill the balance cache.
    async fn written(&self) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        for sql in WRITTEN {
            let rows = testing::lines(&self.store, sql).await.unwrap();
            let before = lines.len() + rows.len();
            lines.extend(rows);
            assert_eq!(lines.len(), before, "no two rows are the same: {lines:?}");
        }
        lines
    }
}

/// The same customers in one database with all of them, and in one for each.
struct World {
    /// The whole ledger first, then its parts.
    ledgers: Vec<Ledger>,
    callers: Vec<TestCaller>,
    /// Every call that was asked for.
    calls: Vec<Hold>,
}

impl World {
    async fn new(stores: Vec<TestStore>) -> Self {
        let mut ledgers = Vec::new();
        for store in stores {
            let metering = Some(TestMetering::start(&store).await);
            ledgers.push(Ledger { store, metering, customers: Vec::new() });
        }
        let mut world = Self { ledgers, callers: Vec::new(), calls: Vec::new() };
        for part in 1..world.ledgers.len() {
            world.register(part).await;
        }
        // A balance that SQLite has to read first would make the first hold wait.
        let first = |caller: &TestCaller| caller.hold(0);
        let first: Vec<Hold> = world.callers.iter().map(first).collect();
        for ledger in &world.ledgers {
            ledger.hold(&first).await;
        }
        world
    }

    /// Registers a customer in the whole ledger and in this part of it.
    async fn register(&mut self, part: usize) {
        let new = new_customer(&format!("c{part}@example.com"));
        let first_key = NewKey { monthly_budget: Some(credits(25)), ..new.first_key.clone() };
        let new = store::customers::NewCustomer { first_key, ..new };
        let account = new_account(new.id, "ada");
        let entry = EntryId::new(NOON, unique());
        let mut account_version = 0;
        for place in [0, part] {
            let ledger = &mut self.ledgers[place];
            store::customers::create(&ledger.store, &new).await.unwrap();
            let connected = store::accounts::connect(&ledger.store, &account).await.unwrap();
            let ConnectionOutcome::Connected { version, .. } = connected else {
                panic!("{connected:?}");
            };
            account_version = version;
            grant(&ledger.store, new.id, entry).await;
            ledger.customers.push(new.id);
        }
        self.callers.push(TestCaller {
            customer: new.id,
            key: new.first_key.id,
            key_hash: new.first_key.secret.hash,
            key_version: 0,
            account: account.creator_id,
            account_version,
        });
    }

    fn wanted(&mut self, wanted: &WantedHold) -> Hold {
        let number = i64::try_from(self.calls.len()).unwrap();
        let idempotency = wanted.idempotency_key.map(|key| IdempotencyClaim {
            key_hash: [key; 32],
            fingerprint: [wanted.fingerprint; 32],
            identity: None,
            expires_at: NOON.plus_seconds(60),
        });
        // No two calls begin at the same moment, so that one of them is the latest of its route.
        let held_at = NOON.plus_micros(number);
        let hold = Hold { held_at, idempotency, ..self.callers[wanted.who].hold(wanted.cost) };
        self.calls.push(hold.clone());
        hold
    }

    /// Does the same to all ledgers. Whatever the whole one responds to a customer, that customer's
    /// part responds.
    async fn run(&mut self, round: &Round) {
        let mut responses = Vec::new();
        match round {
            Round::Holds(wanted) => {
                let holds: Vec<Hold> = wanted.iter().map(|wanted| self.wanted(wanted)).collect();
                for ledger in &self.ledgers {
                    responses.push(ledger.hold(&holds).await);
                }
            }
            Round::Ends(wanted) if !self.calls.is_empty() => {
                let ends: Vec<_> = wanted.iter().map(|wanted| self.end_of(*wanted)).collect();
                for ledger in &self.ledgers {
                    responses.push(ledger.end(&ends).await);
                }
            }
            Round::Renewals(which) if !self.calls.is_empty() => {
                for ledger in &self.ledgers {
                    let calls = which.iter().map(|which| &self.calls[which % self.calls.len()]);
                    for hold in calls.filter(|hold| ledger.has(hold)) {
                        ledger.metering().meter.renew(hold.call_id, NOON.plus_seconds(999));
                    }
                    // Renewals are not awaited, but written before what is requested later.
                    ledger.metering().end(CallId::new(NOON, unique()), Outcome::Answered).await;
                }
            }
            Round::Ends(_) | Round::Renewals(_) => {}
            Round::Sweep => {
                for ledger in &self.ledgers {
                    while testing::take_over(&ledger.store, NOON.plus_seconds(500))
                        .await
                        .unwrap()
                        .holds
                        > 0
                    {}
                }
            }
            Round::Crash => {
                for ledger in &mut self.ledgers {
                    ledger.crash().await;
                }
            }
            Round::RollUp => {
                for ledger in &self.ledgers {
                    let before = NOON.plus_seconds(1);
                    let roll_up = || call_totals::roll_up(&ledger.store, None, before, 3);
                    while roll_up().await.unwrap().calls > 0 {}
                }
            }
        }
        let mut whole = responses.first().cloned().unwrap_or_default();
        let mut parts: Vec<_> = responses.into_iter().skip(1).flatten().collect();
        whole.sort();
        parts.sort();
        assert_eq!(whole, parts, "after {round:?}");
    }

    fn end_of(&self, wanted: WantedEnd) -> (Hold, CallResolution) {
        let hold = self.calls[wanted.which % self.calls.len()].clone();
        let end = resolution(hold.call_id, wanted.outcome);
        (hold, CallResolution { frees_key: wanted.frees_key, ..end })
    }

    async fn compare(&self) {
        let whole = self.ledgers[0].written().await;
        let mut parts = BTreeSet::new();
        for ledger in &self.ledgers[1..] {
            parts.extend(ledger.written().await);
            assert_sound(&ledger.store).await;
        }
        assert_eq!(whole, parts);
        let counts_a_call = |line: &String| line.starts_with("call ") || line.starts_with("total ");
        assert!(whole.iter().any(counts_a_call), "{whole:?}");
        assert_sound(&self.ledgers[0].store).await;
    }
}

/// Grants the same credits with the same entry wherever it is called.
async fn grant(store: &Store, customer: CustomerId, entry: EntryId) {
    let source_id = entry.to_string();
    let grant = CreditGrant {
        entry,
        customer,
        amount: credits(60),
        kind: "gift",
        source: "adj",
        source_id: &source_id,
        reference: None,
        lot: LotSource::Gift,
        expires_at: None,
        at: NOON,
    };
    store::ledger::grant(store, &grant).await.unwrap();
}

/// Holds, settlements, renewals, `Idempotency-Key`s and budgets of two customers, recovery,
/// sweeping and retention: in one database they leave what they leave in one for each.
async fn run_in_one_and_in_two(rounds: Vec<Round>) {
    let stores = vec![testing::store().await, testing::store().await, testing::store().await];
    let mut world = World::new(stores).await;
    for round in &rounds {
        world.run(round).await;
    }
    world.compare().await;
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(test);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    #[test]
    fn a_ledger_cut_by_customer_ends_as_the_whole_one(rounds in rounds()) {
        block_on(run_in_one_and_in_two(rounds));
    }
}

/// How a part of a statement names the customers whose rows it reads or writes.
const NAMES_THE_CUSTOMER: [&str; 8] = [
    "customer_id = $",
    "customer_id || '' = $",
    "customer_id = v.customer_id",
    "customer_id in (",
    "on conflict (customer_id,",
    "customer = (",
    "insert into open_calls (id, customer,",
    "insert into ended_calls (id, customer,",
];

/// Parts that find rows by something that belongs to one customer: the id of a call, the hash of a
/// secret. In a database cut by customer their keys must begin with the customer.
const FINDS_BY_ID: [&str; 3] = [
    "open_calls.id = v.id",
    "delete from open_calls where open_calls.id in (",
    "from key_secrets s",
];

/// The `select`s and changes that a statement consists of. What only orders them is left out.
fn parts_of(statement: &str) -> Vec<String> {
    let mut text = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    for number in 0..10 {
        text = text.replace(&format!("(select count(*) from p{number}) >= 0"), "true");
    }
    text.split("select ").map(str::to_owned).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
}

/// Each statement of a commit of the metering: whatever it reads or writes of a table with
/// customers in it, it says whose.
#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn every_statement_of_a_call_names_the_customer_or_an_id_of_one() {
    const TABLES: &str = "
        select distinct table_name || '' as line from information_schema.columns
        where table_schema = current_schema() and table_name not in ('calls', 'call_rows')
            and (column_name in ('customer_id', 'customer') or table_name = 'key_secrets')";
    let store = testing::postgres().await;
    let tables: BTreeSet<String> =
        testing::lines(&store, TABLES).await.unwrap().into_iter().collect();
    let mut world = World::new(vec![store, testing::postgres().await]).await;
    let hold = WantedHold { who: 0, cost: 1, idempotency_key: Some(1), fingerprint: 1 };
    let end = WantedEnd { which: 0, outcome: Outcome::Answered, frees_key: false };
    for round in [
        Round::Holds(vec![hold, WantedHold { idempotency_key: None, ..hold }]),
        Round::Renewals(vec![0]),
        Round::Ends(vec![end]),
        Round::Holds(vec![hold]),
        Round::Holds(vec![WantedHold { idempotency_key: Some(2), ..hold }]),
        Round::Ends(vec![WantedEnd { which: 3, frees_key: true, ..end }]),
        Round::Crash,
        Round::Ends(vec![WantedEnd { which: 1, ..end }]),
    ] {
        world.run(&round).await;
    }

    let statements = testing::metering_statements(&world.ledgers[0].store).await.unwrap();
    let (mut touched, mut by_id) = (BTreeSet::new(), BTreeSet::<&str>::new());
    for part in statements.iter().flat_map(|statement| parts_of(statement)) {
        let mentioned: Vec<_> = words(&part).filter(|word| tables.contains(*word)).collect();
        if mentioned.is_empty() {
            continue;
        }
        let found_by = FINDS_BY_ID.iter().filter(|by| part.contains(**by)).collect::<Vec<_>>();
        let is_insert = |table| part.contains(&format!("insert into {table} (customer_id,"));
        let says_whose = NAMES_THE_CUSTOMER.iter().any(|name| part.contains(name))
            || mentioned.iter().any(is_insert);
        assert!(says_whose || !found_by.is_empty(), "names no customer: {part}");
        touched.extend(mentioned.into_iter().map(str::to_owned));
        by_id.extend(found_by.into_iter().copied());
    }
    let expected = [
        "accounts",
        "customer_credits",
        "ended_calls",
        "export_jobs",
        "idempotency",
        "key_secrets",
        "keys",
        "open_calls",
        "usage_by_day",
        "usage_daily",
        "usage_routes",
    ];
    assert_eq!(touched.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    assert_eq!(by_id.len(), FINDS_BY_ID.len(), "{by_id:?}");
}

/// A database that is cut by customer cannot check a uniqueness that spans customers, so the
/// document lists each of them.
#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn the_document_names_every_uniqueness_without_the_customer() {
    const UNIQUE: &str = "
        select c.relname || ' (' || string_agg(a.attname, ', ' order by k.place) || ')' as line
        from pg_index i
        join pg_class c on c.oid = i.indrelid
        cross join unnest(i.indkey) with ordinality as k (attnum, place)
        join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
        where i.indisunique and c.relnamespace = current_schema()::regnamespace
          and c.relname <> '_sqlx_migrations'
        group by i.indexrelid, c.relname
        having not bool_or(a.attname = 'customer_id')";
    const HEADING: &str = "### Uniqueness without the customer";
    let store = testing::postgres().await;
    let document = include_str!("../../../../docs/scaling.md");
    let section = document.split(HEADING).nth(1).unwrap().split("\n#").next().unwrap();
    let listed: BTreeSet<String> =
        section.split('`').filter(|text| text.ends_with(')')).map(str::to_owned).collect();

    let unique: BTreeSet<String> =
        testing::lines(&store, UNIQUE).await.unwrap().into_iter().collect();

    assert_eq!(listed, unique, "listed, and in the database");
}
