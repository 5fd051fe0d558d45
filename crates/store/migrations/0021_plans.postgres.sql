-- Texts are compared byte by byte.
alter table plan_versions alter column price_id type text collate "C",
    alter column plan_id type text collate "C", alter column accounts type text collate "C";
alter table subscriptions alter column paid_price_id type text collate "C",
    alter column latest_invoice_id type text collate "C";
alter table slot_changes alter column step type text collate "C",
    alter column invoice_id type text collate "C";
alter table slot_change_items alter column price_before type text collate "C",
    alter column paid_price_id type text collate "C";
alter table slot_credit_items alter column invoice_item_id type text collate "C",
    alter column change_id type text collate "C";
alter table change_previews alter column customer_id type text collate "C",
    alter column subject type text collate "C", alter column wanted type text collate "C";
alter table ended_subscriptions alter column subscription_id type text collate "C",
    alter column customer_id type text collate "C", alter column processor_customer type text collate "C";
alter table voided_invoices alter column invoice_id type text collate "C",
    alter column subscription_id type text collate "C", alter column customer_id type text collate "C";
