//! The rules of money as queries: what was paid, granted and taken back must agree, in both
//! directions.

use crate::verify::LedgerRule;

/// Rules that check every payment.
pub(crate) const PAYMENTS: &[LedgerRule] = &[
    LedgerRule {
        name: "every ledger entry of a payment intent has one paid order of the same customer and credits",
        figures: ["ledger", "order"],
        sql: "
            select l.source_id as subject, l.amount as one, coalesce(o.credits, 0) as other
            from ledger l
            left join orders o on o.payment_id = l.source_id and o.customer_id = l.customer_id
                              and o.state in ('paid', 'refunded')
            where l.source = 'pi' and (o.id is null or o.credits <> l.amount)",
    },
    LedgerRule {
        name: "every paid order has one ledger entry of the same customer and credits",
        figures: ["order", "ledger"],
        sql: "
            select o.id as subject, o.credits as one, coalesce(l.amount, 0) as other
            from orders o
            left join ledger l on l.source = 'pi' and l.source_id = o.payment_id
                              and l.customer_id = o.customer_id
            where o.state in ('paid', 'refunded') and (l.id is null or l.amount <> o.credits)",
    },
    LedgerRule {
        name: "the credits of each part sold equal the credits of its lot",
        figures: ["sold", "granted"],
        sql: "
            select p.sale_id as subject, p.credits as one, coalesce(l.granted, 0) as other
            from sale_parts p left join lots l on l.id = p.lot_id and l.customer_id = p.customer_id
            where case when l.source = 'balance' then 0
                       when p.kind not in ('plan', 'pack') or p.credits <= 0 then coalesce(l.granted, 0)
                       else p.credits - coalesce(l.granted, 0) end <> 0",
    },
    LedgerRule {
        name: "every lot from a payment belongs to a part sold",
        figures: ["granted", "sold"],
        sql: "
            select l.id as subject, l.granted as one, cast(0 as bigint) as other
            from lots l left join sale_parts p on p.lot_id = l.id
            where l.source in ('pack', 'top_up', 'plan') and p.sale_id is null",
    },
    LedgerRule {
        name: "every ledger entry of a payment has a recorded sale",
        figures: ["ledger", "sale"],
        sql: "
            select l.source_id as subject, l.amount as one, cast(0 as bigint) as other
            from ledger l
            left join sale_parts p on p.lot_id = l.lot_id
            left join sales s on s.id = coalesce(p.sale_id, l.source_id) and s.source = l.source
            where l.source in ('pi', 'invoice') and s.id is null",
    },
    LedgerRule {
        name: "a plan's credits equal what its paid lines bought, rounded up",
        figures: ["granted", "bought"],
        sql: "
            select sale_id as subject, credits as one, bought as other
            from (
                select p.sale_id, p.place, p.credits, max(l.period_s) as period_s,
                       cast(sum(l.monthly_credits * ((l.ends_at - l.starts_at) / 1000000)) as bigint) as exact,
                       cast(sum(l.monthly_credits * ((l.ends_at - l.starts_at) / 1000000)) / max(l.period_s) as bigint)
                           as bought
                from sale_parts p join sale_lines l on l.sale_id = p.sale_id and l.part = p.place
                where p.kind = 'plan'
                group by p.sale_id, p.place, p.credits
            ) as parts
            where credits * period_s < exact or (credits - 1) * period_s >= exact",
    },
    LedgerRule {
        name: "what was paid for an order is at most its price",
        figures: ["order's cents", "sale's cents"],
        sql: "
            select o.id as subject, o.amount_cents as one, coalesce(s.amount_cents - s.tax_cents, -1) as other
            from orders o
            left join sales s on s.order_id = o.id and s.id = o.payment_id
                             and s.currency = o.currency and s.livemode = o.livemode
            where o.state in ('paid', 'refunded')
              and (s.id is null or s.amount_cents - s.tax_cents > o.amount_cents)",
    },
    LedgerRule {
        name: "the top-ups of a customer's day stay within the cap that each was claimed under",
        figures: ["cents", "cap"],
        sql: "
            select t.order_id as subject, cast(sum(d.cents) as bigint) as one, t.cap_cents as other
            from top_ups t
            join top_ups d on d.customer_id = t.customer_id and d.day = t.day and d.state <> 'failed'
                          and (d.claimed_at, d.order_id) <= (t.claimed_at, t.order_id)
            where t.state <> 'failed'
            group by t.order_id, t.cap_cents having sum(d.cents) > t.cap_cents",
    },
    LedgerRule {
        name: "a customer has at most one top-up open",
        figures: ["open", "at most"],
        sql: "
            select customer_id as subject, count(*) as one, cast(1 as bigint) as other from top_ups
            where state in ('claimed', 'requires_action') group by customer_id having count(*) > 1",
    },
    LedgerRule {
        name: "a top-up has the same outcome and price as its order",
        figures: ["top-up's cents", "order's cents"],
        sql: "
            select t.order_id as subject, t.cents as one, o.amount_cents as other
            from top_ups t join orders o on o.id = t.order_id
            where t.cents <> o.amount_cents or t.customer_id <> o.customer_id or o.channel <> 'top_up'
               or t.state <> case when o.state in ('paid', 'refunded') then 'succeeded'
                                  when o.state = 'pending' and t.state in ('claimed', 'requires_action')
                                  then t.state
                                  when o.state in ('failed', 'expired') then 'failed'
                                  else '' end",
    },
    LedgerRule {
        name: "the refunds and disputes of a sale take at most the credits it granted",
        figures: ["taken", "brought"],
        sql: "
            select sale_id as subject, taken as one, credits as other from sale_parts
            where taken < 0 or (taken > 0 and taken > credits)",
    },
    LedgerRule {
        name: "the reversed money of a sale equals its refunds and disputes, and is at most what was charged",
        figures: ["gone back", "refunds and disputes"],
        sql: "
            select id as subject, reversed_cents as one, gone as other
            from (
                select s.id, s.reversed_cents,
                       cast(coalesce(sum(case when r.state = 'standing' then r.amount_cents else 0 end), 0) as bigint) as gone,
                       s.amount_cents
                from sales s left join reversals r on r.payment_id = s.id
                group by s.id, s.reversed_cents, s.amount_cents
            ) as sums
            where reversed_cents <> case when gone > amount_cents then amount_cents else gone end",
    },
];

/// Rules that check every lot.
pub(crate) const LOTS: &[LedgerRule] = &[
    LedgerRule {
        name: "the credits left and spent in a customer's lots equal its available, spent and held credits less its debt",
        figures: ["available + spent + held - debt", "lots"],
        sql: "
            select c.customer_id as subject, c.available + c.spent + c.held - c.debt as one,
                   coalesce(l.credits, 0) as other
            from customer_credits c
            left join (
                select customer_id, cast(sum(credits_left + spent) as bigint) as credits
                from lots group by customer_id
            ) l on l.customer_id = c.customer_id
            where c.available + c.spent + c.held - c.debt <> coalesce(l.credits, 0)",
    },
    LedgerRule {
        name: "the ledger entries of a lot add up to the credits left and spent of it",
        figures: ["left + spent", "ledger"],
        sql: "
            select o.id as subject, o.credits_left + o.spent as one, coalesce(l.amount, 0) as other
            from lots o
            left join (
                select coalesce(lot_id, 'lot_' || substr(customer_id, 5)) as lot_id, cast(sum(amount) as bigint) as amount
                from ledger group by coalesce(lot_id, 'lot_' || substr(customer_id, 5))
            ) l on l.lot_id = o.id
            where o.credits_left + o.spent <> coalesce(l.amount, 0)",
    },
];
