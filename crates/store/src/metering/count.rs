//! Usage: ended calls counted by key and day, and by endpoint and day, in the transaction that ends them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use domain::charge;
use domain::id::{CustomerId, KeyId};
use domain::time::Timestamp;

use super::end::Ended;
use crate::parts::Part;
use crate::sql::{Kind, Value};
use crate::tx::Table;

/// What ended calls add to the counts, by endpoint and key.
#[derive(Debug, Default)]
pub(crate) struct Counted<'a>(BTreeMap<Endpoint<'a>, BTreeMap<KeyId, Counts>>);

/// A route of a customer's account, and a day by its number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Endpoint<'a> {
    pub(super) customer: CustomerId,
    pub(super) day: i64,
    /// The account, its platform, the method and the route.
    pub(super) names: [Cow<'a, str>; 4],
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) calls: i64,
    pub(super) credits: i64,
    pub(super) errors: i64,
    pub(super) last_at: Option<Timestamp>,
    pub(super) last_status: Option<i64>,
}

impl Counts {
    fn of(call: &Ended<'_>) -> Self {
        Self {
            calls: 1,
            credits: call.end.credits(call.cost),
            errors: i64::from(!charge::is_ok(call.end.outcome, call.end.status)),
            last_at: Some(call.held_at),
            last_status: call.end.status_number(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.credits = self.credits.saturating_add(other.credits);
        self.errors = self.errors.saturating_add(other.errors);
        if self.last_at <= other.last_at {
            self.last_at = other.last_at;
            self.last_status = other.last_status;
        }
    }
}

impl Endpoint<'_> {
    fn into_owned(self) -> Endpoint<'static> {
        let Self { customer, day, names } = self;
        Endpoint { customer, day, names: names.map(|name| Cow::Owned(name.into_owned())) }
    }
}

impl<'a> Counted<'a> {
    /// Counts calls.
    pub(crate) fn of(calls: &'a [Ended<'_>]) -> Self {
        let mut counted = Self::default();
        for call in calls {
            let names = [&*call.creator_id, &*call.platform, &*call.method, &*call.route];
            let endpoint = Endpoint {
                customer: call.customer,
                day: call.held_at.day().number(),
                names: names.map(Cow::Borrowed),
            };
            let keys = counted.0.entry(endpoint).or_default();
            keys.entry(call.key).or_default().add(&Counts::of(call));
        }
        counted
    }

    /// Whether no call was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many keys were counted at how many endpoints.
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// A row for each key at each endpoint.
    pub(super) fn rows(&self) -> Table<'_> {
        let mut rows = Table::new(PENDING_KINDS);
        for (Endpoint { customer, day, names }, keys) in &self.0 {
            for (key, counts) in keys {
                let [creator_id, platform, method, route] =
                    names.each_ref().map(|name| Value::from(&**name));
                rows.push([
                    (*customer).into(),
                    (*key).into(),
                    (*day).into(),
                    creator_id,
                    platform,
                    method,
                    route,
                    counts.calls.into(),
                    counts.credits.into(),
                    counts.errors.into(),
                    counts.last_status.into(),
                    counts.last_at.into(),
                ]);
            }
        }
        rows
    }

    /// What adds them to the counts of days and of endpoints.
    pub(crate) fn parts(&self) -> [Part<'_>; 2] {
        let mut days: BTreeMap<(CustomerId, KeyId, i64), Counts> = BTreeMap::new();
        let mut routes = Table::new(ROUTE_KINDS);
        for (Endpoint { customer, day, names }, keys) in &self.0 {
            for (key, counts) in keys {
                days.entry((*customer, *key, *day)).or_default().add(counts);
                let [creator_id, platform, method, route] =
                    names.each_ref().map(|name| Value::from(&**name));
                routes.push([
                    (*customer).into(),
                    (*key).into(),
                    (*day).into(),
                    creator_id,
                    platform,
                    method,
                    route,
                    counts.calls.into(),
                    counts.errors.into(),
                    counts.last_status.into(),
                    counts.last_at.into(),
                ]);
            }
        }
        let mut by_day = Table::new(DAY_KINDS);
        for ((customer, key, day), counts) in days {
            by_day.push([
                customer.into(),
                key.into(),
                day.into(),
                counts.calls.into(),
                counts.credits.into(),
                (counts.calls - counts.errors).into(),
                counts.errors.into(),
            ]);
        }
        [Part::over(ADD_DAY, by_day, &[]), Part::over(ADD_ROUTE, routes, &[])]
    }
}

impl Counted<'static> {
    /// Adds what was counted elsewhere.
    pub(crate) fn add(&mut self, other: Counted<'_>) {
        for (endpoint, keys) in other.0 {
            let own = self.0.entry(endpoint.into_owned()).or_default();
            for (key, counts) in keys {
                own.entry(key).or_default().add(&counts);
            }
        }
    }

    /// Adds the counts of one key at one endpoint.
    pub(super) fn add_one(&mut self, endpoint: &Endpoint<'static>, key: KeyId, counts: &Counts) {
        self.0.entry(endpoint.clone()).or_default().entry(key).or_default().add(counts);
    }
}

const ADD_DAY: &str = "
    insert into usage_daily (customer_id, key_id, day, calls, credits, ok, errors)
    {rows}
    on conflict (customer_id, key_id, day) do update set
        calls = usage_daily.calls + excluded.calls,
        credits = usage_daily.credits + excluded.credits,
        ok = usage_daily.ok + excluded.ok, errors = usage_daily.errors + excluded.errors";

const ADD_ROUTE: &str = "
    insert into usage_routes (customer_id, key_id, day, creator_id, platform, method, route, calls,
                              errors, last_status, last_at)
    {rows}
    on conflict (customer_id, key_id, day, creator_id, platform, method, route) do update set
        calls = usage_routes.calls + excluded.calls,
        errors = usage_routes.errors + excluded.errors,
        last_status = case when excluded.last_at >= usage_routes.last_at
            then excluded.last_status else usage_routes.last_status end,
        last_at = case when excluded.last_at >= usage_routes.last_at
            then excluded.last_at else usage_routes.last_at end";

const PENDING_KINDS: &[Kind] = &[
    Kind::Text,
    Kind::Text,
    Kind::Int,
    Kind::Text,
    Kind::Text,
    Kind::Text,
    Kind::Text,
    Kind::Int,
    Kind::Int,
    Kind::Int,
    Kind::Int,
    Kind::Int,
];

const DAY_KINDS: &[Kind] =
    &[Kind::Text, Kind::Text, Kind::Int, Kind::Int, Kind::Int, Kind::Int, Kind::Int];

const ROUTE_KINDS: &[Kind] = &[
    Kind::Text,
    Kind::Text,
    Kind::Int,
    Kind::Text,
    Kind::Text,
    Kind::Text,
    Kind::Text,
    Kind::Int,
    Kind::Int,
    Kind::Int,
    Kind::Int,
];
