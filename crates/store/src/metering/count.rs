//! Usage: counts settled calls by key and day, and by endpoint and day, in the transaction that
//! settles them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use domain::charge;
use domain::id::{CustomerId, KeyId};
use domain::time::Timestamp;

use super::end::SettledCall;
use crate::sql::{SqlKind, SqlValue};
use crate::statement_batch::BatchedStatement;
use crate::tx::RowTable;

/// What settled calls add to the usage counts, by endpoint and key.
#[derive(Debug, Default)]
pub(crate) struct EndedCallCounts<'a>(BTreeMap<CountedEndpoint<'a>, BTreeMap<KeyId, CallCounts>>);

/// A route of a customer's account, and a day number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CountedEndpoint<'a> {
    pub(super) customer: CustomerId,
    pub(super) day: i64,
    /// The account, its platform, the method and the route.
    pub(super) names: [Cow<'a, str>; 4],
}

/// The counts of one key at one endpoint and day.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CallCounts {
    pub(super) calls: i64,
    pub(super) credits: i64,
    pub(super) errors: i64,
    pub(super) last_at: Option<Timestamp>,
    pub(super) last_status: Option<i64>,
}

impl CallCounts {
    fn of(call: &SettledCall<'_>) -> Self {
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

impl CountedEndpoint<'_> {
    fn into_owned(self) -> CountedEndpoint<'static> {
        let Self { customer, day, names } = self;
        CountedEndpoint { customer, day, names: names.map(|name| Cow::Owned(name.into_owned())) }
    }
}

impl<'a> EndedCallCounts<'a> {
    /// Counts these calls.
    pub(crate) fn of(calls: &'a [SettledCall<'_>]) -> Self {
        let mut counted = Self::default();
        for call in calls {
            let names = [&*call.creator_id, &*call.platform, &*call.method, &*call.route];
            let endpoint = CountedEndpoint {
                customer: call.customer,
                day: call.held_at.day().number(),
                names: names.map(Cow::Borrowed),
            };
            let keys = counted.0.entry(endpoint).or_default();
            keys.entry(call.key).or_default().add(&CallCounts::of(call));
        }
        counted
    }

    /// The number of (endpoint, key) pairs.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// The statements that add the counts to the tables by day and by endpoint.
    pub(crate) fn parts(&self) -> [BatchedStatement<'_>; 2] {
        let mut days: BTreeMap<(CustomerId, KeyId, i64), CallCounts> = BTreeMap::new();
        let mut routes = RowTable::new(ROUTE_KINDS);
        for (CountedEndpoint { customer, day, names }, keys) in &self.0 {
            for (key, counts) in keys {
                days.entry((*customer, *key, *day)).or_default().add(counts);
                let [creator_id, platform, method, route] =
                    names.each_ref().map(|name| SqlValue::from(&**name));
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
        let mut by_day = RowTable::new(DAY_KINDS);
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
        [
            BatchedStatement::over(ADD_DAY, by_day, &[]),
            BatchedStatement::over(ADD_ROUTE, routes, &[]),
        ]
    }
}

impl EndedCallCounts<'static> {
    /// Adds other counts.
    pub(crate) fn add(&mut self, other: EndedCallCounts<'_>) {
        for (endpoint, keys) in other.0 {
            let own = self.0.entry(endpoint.into_owned()).or_default();
            for (key, counts) in keys {
                own.entry(key).or_default().add(&counts);
            }
        }
    }

    /// Adds the counts of one key at one endpoint.
    pub(super) fn add_one(
        &mut self,
        endpoint: &CountedEndpoint<'static>,
        key: KeyId,
        counts: &CallCounts,
    ) {
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

const DAY_KINDS: &[SqlKind] = &[
    SqlKind::Text,
    SqlKind::Text,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
];

const ROUTE_KINDS: &[SqlKind] = &[
    SqlKind::Text,
    SqlKind::Text,
    SqlKind::Int,
    SqlKind::Text,
    SqlKind::Text,
    SqlKind::Text,
    SqlKind::Text,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
    SqlKind::Int,
];
