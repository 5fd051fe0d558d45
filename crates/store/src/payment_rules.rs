//! The rules of money as queries: what was paid, granted and taken back agree, in both directions.

use crate::verify::Rule;

/// Rules that look at every payment there is.
pub(crate) const PAYMENTS: &[Rule] = &[
    Rule {
        name: "every ledger entry of a payment intent has one paid order of the same customer and credits",
        figures: ["ledger", "order"],
        sql: "
            select l.source_id, l.amount, coalesce(o.credits, 0)
            from ledger l
            left join orders o on o.payment_id = l.source_id and o.customer_id = l.customer_id
                              and o.state in ('paid', 'refunded')
            where l.source = 'pi' and (o.id is null or o.credits <> l.amount)",
    },
    Rule {
        name: "every paid order has one ledger entry of the same customer and credits",
        figures: ["order", "ledger"],
        sql: "
            select o.id, o.credits, coalesce(l.amount, 0)
            from orders o
            left join ledger l on l.source = 'pi' and l.source_id = o.payment_id
                              and l.customer_id = o.customer_id
            where o.state in ('paid', 'refunded') and (l.id is null or l.amount <> o.credits)",
    },
    Rule {
        name: "every booked payment has its ledger entry, of the same customer and credits",
        figures: ["payment", "ledger"],
        sql: "
            select p.payment_id, p.credits, coalesce(l.amount, 0)
            from payments p
            left join ledger l on l.source = p.source and l.source_id = p.payment_id
                              and l.customer_id = p.customer_id
            where l.id is null or l.amount <> p.credits",
    },
    Rule {
        name: "every ledger entry of a payment is written down as a payment",
        figures: ["ledger", "payment"],
        sql: "
            select l.source_id, l.amount, cast(0 as bigint)
            from ledger l
            left join payments p on p.payment_id = l.source_id and p.source = l.source
            where l.source in ('pi', 'invoice') and p.payment_id is null",
    },
    Rule {
        name: "what was paid for an order is its price",
        figures: ["order's cents", "payment's cents"],
        sql: "
            select o.id, o.amount_cents, coalesce(p.amount_cents, -1)
            from orders o
            left join payments p on p.order_id = o.id and p.payment_id = o.payment_id
                                and p.currency = o.currency and p.livemode = o.livemode
            where o.state in ('paid', 'refunded')
              and (p.payment_id is null or p.amount_cents <> o.amount_cents)",
    },
    Rule {
        name: "the top-ups of a customer's day stay within the cap that each was claimed under",
        figures: ["cents", "cap"],
        sql: "
            select t.order_id, cast(sum(d.cents) as bigint), t.cap_cents
            from top_ups t
            join top_ups d on d.customer_id = t.customer_id and d.day = t.day and d.state <> 'failed'
                          and (d.claimed_at, d.order_id) <= (t.claimed_at, t.order_id)
            where t.state <> 'failed'
            group by t.order_id, t.cap_cents having sum(d.cents) > t.cap_cents",
    },
    Rule {
        name: "a customer has at most one top-up open",
        figures: ["open", "at most"],
        sql: "
            select customer_id, count(*), cast(1 as bigint) from top_ups
            where state in ('claimed', 'requires_action') group by customer_id having count(*) > 1",
    },
    Rule {
        name: "a top-up ends as its order does, and costs what it costs",
        figures: ["top-up's cents", "order's cents"],
        sql: "
            select t.order_id, t.cents, o.amount_cents
            from top_ups t join orders o on o.id = t.order_id
            where t.cents <> o.amount_cents or t.customer_id <> o.customer_id or o.channel <> 'top_up'
               or t.state <> case when o.state in ('paid', 'refunded') then 'succeeded'
                                  when o.state = 'pending' and t.state in ('claimed', 'requires_action')
                                  then t.state
                                  when o.state in ('failed', 'expired') then 'failed'
                                  else '' end",
    },
    Rule {
        name: "the refunds and disputes of a payment take at most what it granted",
        figures: ["taken", "granted"],
        sql: "
            select p.payment_id, r.taken, p.credits
            from payments p
            join (
                select payment_id, cast(sum(taken_credits - returned_credits) as bigint) as taken
                from reversals group by payment_id
            ) r on r.payment_id = p.payment_id
            where r.taken < 0 or r.taken > p.credits",
    },
    Rule {
        name: "what refunds and disputes took is what the ledger says they took",
        figures: ["taken", "ledger"],
        sql: "
            select customer_id, cast(sum(taken) as bigint), cast(-sum(booked) as bigint)
            from (
                select customer_id, taken_credits - returned_credits as taken, 0 as booked from reversals
                union all
                select customer_id, 0, amount from ledger where source in ('refund', 'dispute')
            ) as sums
            group by customer_id having sum(taken) + sum(booked) <> 0",
    },
];
