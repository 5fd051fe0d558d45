//! Every scenario of the reference model as its own test, on both databases.

use super::play::play;
use super::scenario::{Scenario, vectors};

/// Runs one scenario on the database that the test is about.
async fn plays(name: &str) {
    let (catalogue, scenarios) = vectors();
    let scenario: &Scenario = scenarios.iter().find(|one| one.name == name).unwrap();
    let database = store::testing::store().await;
    let url = &database.options().url;
    let kind = if url.starts_with("postgres") { "PostgreSQL" } else { "SQLite" };
    let told = play(database, &catalogue, scenario).await;
    assert!(told.is_empty(), "differs from the model, on {kind}:\n{told}");
}

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                plays(stringify!($name)).await;
            }
        )*

        #[test]
        fn every_scenario_of_the_model_has_a_test() {
            let played = [$(stringify!($name)),*];
            let (_, scenarios) = vectors();
            let known: Vec<&str> = scenarios.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(known, played);
        }
    };
}

scenarios! {
    trial_once
    pack_spent_to_zero
    packs_oldest_first
    pack_declined
    pack_with_coupon
    pack_refund_unspent
    pack_refund_spent_is_debt
    pack_refund_takes_other_lots
    pack_refund_in_thirds
    pack_refund_more_than_paid
    pack_dispute_won
    pack_refund_and_dispute
    refund_that_fails
    pack_with_tax
    first_month
    first_month_declined
    renewal
    month_expires_after_the_following_one
    soonest_expiring_first
    second_subscription_refused
    upgrade_on_day_1_honest
    upgrade_at_once
    upgrade_half_way
    upgrade_in_the_last_hour
    upgrade_in_the_last_second
    upgrade_declined
    upgrade_twice
    upgrade_from_a_preview
    upgrade_previewed_before_the_renewal
    upgrade_to_the_same_plan
    unknown_plan
    downgrade_at_period_end
    downgrade_taken_back
    downgrade_replaced
    upgrade_while_downgrade_pending
    declined_upgrade_while_downgrade_pending
    upgrade_then_downgrade_in_one_period
    exploit_up_and_down_each_month
    exploit_buy_big_then_downgrade
    exploit_late_upgrade_then_leave
    cancel_at_period_end
    cancel_taken_back
    cancel_and_come_back
    cancel_with_pending_downgrade
    upgrade_while_ending
    past_due_recovered_by_a_retry
    past_due_paid_with_a_new_card
    past_due_until_the_end
    past_due_sells_nothing
    past_due_lowering_brings_no_credit
    slots_with_the_first_invoice
    slot_raise_half_way
    slot_raise_declined
    slot_lowered
    slots_lowered_above_the_plan_price
    slot_switched
    slot_credit_survives_the_end
    slot_up_while_downgrade_pending
    refund_month_unspent
    refund_half_a_month
    refund_upgrade_only
    refund_first_month_after_upgrade
    refund_invoice_with_slots
    refund_rounding_cent
    refund_of_a_slot_invoice
    slot_lowered_then_refunded
    slot_credit_used_then_disputed
    refund_after_expiry
    dispute_won_after_expiry
    coupon_on_a_plan
    tax_on_an_upgrade
    events_twice_and_backwards
    events_missing
    refund_heard_before_its_payment
    topup_buys_enough_at_once
    topup_within_the_cap
    topup_declined_and_refunded
    plan_retired
    plan_edited_grandfathered
    anchor_on_the_31st
    kept_refund_takes_nothing
    kept_refund_after_a_partial_one
    kept_refund_before_a_partial_one
    kept_refund_fails
    kept_refund_of_spent_credits
    kept_refund_then_dispute
    kept_afterwards
    kept_refund_heard_before_the_payment
    kept_refund_of_a_month
    kept_refund_of_slots_is_not_credited_again
    kept_refund_stops_top_up
    note_for_tax_alone
    note_for_all_but_tax
    note_for_slots_alone
    note_for_the_plan_alone
    refund_without_a_note
    note_after_its_refund
    note_of_spent_credits_returns_them
    note_whose_refund_is_kept
    note_whose_refund_fails
    note_for_part_of_a_refund
    note_then_all_of_the_money
    note_and_then_a_dispute
    note_for_nothing_in_particular
    note_for_a_discounted_line
    note_for_the_base_undoes_the_upgrade
    note_for_an_upgrade
    note_to_the_balance
    note_to_the_balance_for_slots
    note_of_what_credit_paid
    note_outside_of_the_processor
    note_divided_over_three_ways
    note_for_slots_that_were_credited
    note_of_an_open_invoice
    note_of_an_open_invoice_for_slots
    note_of_an_open_invoice_voided
    note_of_all_of_an_open_invoice
    notes_above_the_invoice
}
