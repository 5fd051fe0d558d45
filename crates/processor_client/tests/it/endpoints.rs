//! Every request but those of payment pages: its method, its path and its parameters.

use processor_client::{
    CustomerChange, CustomerPresence, EventListing, IntentConfirmation, InvoicePreview, ItemChange,
    ItemPrice, ListFilter, NewCustomer, NewIntent, NewPrice, NewProduct, NewRefund,
    ProrationBehavior, SubscriptionChange,
};
use serde_json::json;

use crate::support::{key, lines, request_of};

const NO_CHANGE: ItemChange<'_> =
    ItemChange { id: None, price: None, quantity: None, is_deleted: false };

#[tokio::test]
async fn an_object_is_read_below_the_name_of_its_kind() {
    let one = json!({"id": "x_1"});
    let event = json!({"id": "evt_1", "type": "t", "data": {"object": {}}});
    let requests = [
        request_of(&one, async |to| to.retrieve_customer("cus_1").await).await,
        request_of(&one, async |to| to.retrieve_payment_method("pm_1").await).await,
        request_of(&one, async |to| to.retrieve_charge("ch_1").await).await,
        request_of(&one, async |to| to.retrieve_refund("re_1").await).await,
        request_of(&one, async |to| to.retrieve_dispute("dp_1").await).await,
        request_of(&one, async |to| to.retrieve_fraud_warning("issfr_1").await).await,
        request_of(&event, async |to| to.retrieve_event("evt_1").await).await,
        request_of(&one, async |to| to.retrieve_product("prod_1").await).await,
        request_of(&one, async |to| to.retrieve_price("price_1").await).await,
        request_of(&one, async |to| to.retrieve_portal_configuration("bpc_1").await).await,
        request_of(&one, async |to| to.retrieve_balance().await).await,
        request_of(&one, async |to| to.retrieve_tax_settings().await).await,
    ];

    let expected = [
        "GET /v1/customers/cus_1",
        "GET /v1/payment_methods/pm_1",
        "GET /v1/charges/ch_1",
        "GET /v1/refunds/re_1",
        "GET /v1/disputes/dp_1",
        "GET /v1/radar/early_fraud_warnings/issfr_1",
        "GET /v1/events/evt_1",
        "GET /v1/products/prod_1",
        "GET /v1/prices/price_1",
        "GET /v1/billing_portal/configurations/bpc_1",
        "GET /v1/balance",
        "GET /v1/tax/settings",
    ];
    assert_eq!(requests, expected);
}

#[tokio::test]
async fn an_object_comes_with_the_objects_that_are_read_of_it() {
    let one = json!({"id": "x_1"});
    let requests = [
        request_of(&one, async |to| to.retrieve_intent("pi_1").await).await,
        request_of(&one, async |to| to.retrieve_invoice("in_1").await).await,
        request_of(&one, async |to| to.retrieve_subscription("sub_1").await).await,
        request_of(&one, async |to| to.retrieve_checkout("cs_1").await).await,
    ];

    let expected = [
        "GET /v1/payment_intents/pi_1\nexpand[]=payment_method\nexpand[]=latest_charge",
        "GET /v1/invoices/in_1\nexpand[]=payments",
        "GET /v1/subscriptions/sub_1\nexpand[]=latest_invoice",
        "GET /v1/checkout/sessions/cs_1\nexpand[]=line_items\nexpand[]=payment_intent.payment_method\n\
         expand[]=payment_intent.latest_charge\nexpand[]=setup_intent.payment_method",
    ];
    assert_eq!(requests, expected);
}

#[tokio::test]
async fn every_list_takes_the_same_filters() {
    let page = json!({"data": [], "has_more": false});
    let all = ListFilter {
        customer: Some("cus_1"),
        subscription: Some("sub_1"),
        payment_intent: Some("pi_1"),
        invoice: None,
        status: Some("open"),
        created_from: Some(-1),
        after: Some("x_9"),
        limit: Some(7),
    };
    let requests = [
        request_of(&page, async |to| to.list_intents(&all).await).await,
        request_of(&page, async |to| to.list_checkouts(&all).await).await,
        request_of(&page, async |to| to.list_charges(&all).await).await,
        request_of(&page, async |to| to.list_refunds(&all).await).await,
        request_of(&page, async |to| to.list_disputes(&all).await).await,
        request_of(&page, async |to| to.list_fraud_warnings(&all).await).await,
        request_of(&page, async |to| to.list_subscriptions(&all).await).await,
        request_of(&page, async |to| to.list_invoices(&all).await).await,
    ];

    let filters = lines(
        "limit=7
         customer=cus_1
         subscription=sub_1
         payment_intent=pi_1
         status=open
         created[gte]=-1
         starting_after=x_9",
    );
    let kinds = [
        "payment_intents",
        "checkout/sessions",
        "charges",
        "refunds",
        "disputes",
        "radar/early_fraud_warnings",
        "subscriptions",
        "invoices",
    ];
    assert_eq!(requests, kinds.map(|kind| format!("GET /v1/{kind}\n{filters}")));
}

#[tokio::test]
async fn a_page_has_one_to_a_hundred_objects_whatever_is_asked_for() {
    let page = json!({"data": []});
    for (asked, limit) in
        [(None, 100), (Some(0), 1), (Some(1), 1), (Some(100), 100), (Some(255), 100)]
    {
        let filter = ListFilter { limit: asked, ..ListFilter::default() };

        let charges = request_of(&page, async |to| to.list_charges(&filter).await).await;

        assert_eq!(charges, format!("GET /v1/charges\nlimit={limit}"));
        let Some(asked) = asked else { continue };
        let cards = request_of(&page, async |to| to.list_cards("cus_1", asked).await).await;
        assert_eq!(
            cards,
            format!("GET /v1/customers/cus_1/payment_methods\ntype=card\nlimit={limit}")
        );
    }
}

#[tokio::test]
async fn a_list_below_an_object_continues_after_the_last_one() {
    let page = json!({"data": []});
    let requests = [
        request_of(&page, async |to| to.list_balance_transactions("cus_1", None).await).await,
        request_of(&page, async |to| to.list_balance_transactions("cus_1", Some("b_1")).await)
            .await,
        request_of(&page, async |to| to.list_invoice_lines("in_1", "il_1").await).await,
        request_of(&page, async |to| to.list_pending_items("cus_1", None).await).await,
        request_of(&page, async |to| to.list_invoice_payments("pi_1").await).await,
        request_of(&page, async |to| to.find_prices("plan & more").await).await,
        request_of(&page, async |to| to.list_webhook_endpoints().await).await,
    ];

    let expected = [
        "GET /v1/customers/cus_1/balance_transactions\nlimit=100",
        "GET /v1/customers/cus_1/balance_transactions\nlimit=100\nstarting_after=b_1",
        "GET /v1/invoices/in_1/lines\nlimit=100\nstarting_after=il_1",
        "GET /v1/invoiceitems\nlimit=100\ncustomer=cus_1\npending=true",
        "GET /v1/invoice_payments\nlimit=100\npayment[type]=payment_intent\npayment[payment_intent]=pi_1",
        "GET /v1/prices\nlookup_keys[]=plan & more",
        "GET /v1/webhook_endpoints\nlimit=100",
    ];
    assert_eq!(requests, expected);
}

#[tokio::test]
async fn events_are_listed_by_types_delivery_and_time() {
    let page = json!({"data": []});
    let listing = EventListing {
        types: &["invoice.paid", "charge.refunded"],
        delivered: Some(false),
        created_from: Some(5),
        after: Some("evt_1"),
    };

    let some = request_of(&page, async |to| to.list_events(&listing).await).await;
    let all = request_of(&page, async |to| to.list_events(&EventListing::default()).await).await;

    let expected = lines(
        "GET /v1/events
         limit=100
         delivery_success=false
         created[gte]=5
         starting_after=evt_1
         types[]=invoice.paid
         types[]=charge.refunded",
    );
    assert_eq!((some, all), (expected, "GET /v1/events\nlimit=100".to_owned()));
}

#[tokio::test]
async fn a_search_quotes_what_it_looks_for() {
    let page = json!({"data": []});

    let found = request_of(&page, async |to| to.search_intents("a'b", r"c\' OR x").await).await;

    let query = r"query=metadata['a\'b']:'c\\\' OR x'";
    assert_eq!(found, format!("GET /v1/payment_intents/search\n{query}\nlimit=100"));
}

#[tokio::test]
async fn customers_are_made_changed_and_deleted() {
    let one = json!({"id": "cus_1"});
    let new = NewCustomer { email: "a+b@example.com", customer_id: "cust_1" };
    let both =
        CustomerChange { email: Some("c@example.com"), default_payment_method: Some("pm_1") };
    // An empty text takes the card away; it must be sent.
    let none = CustomerChange { default_payment_method: Some(""), ..CustomerChange::default() };
    let requests = [
        request_of(&one, async |to| to.create_customer(&new, &key()).await).await,
        request_of(&one, async |to| to.update_customer("cus_1", &both, &key()).await).await,
        request_of(&one, async |to| to.update_customer("cus_1", &none, &key()).await).await,
        request_of(&one, async |to| to.delete_customer("cus_1").await).await,
        request_of(&one, async |to| to.detach_payment_method("pm_1", &key()).await).await,
    ];

    let default = "invoice_settings[default_payment_method]";
    let expected = [
        "POST /v1/customers\nemail=a+b@example.com\nmetadata[customer_id]=cust_1".to_owned(),
        format!("POST /v1/customers/cus_1\nemail=c@example.com\n{default}=pm_1"),
        format!("POST /v1/customers/cus_1\n{default}="),
        "DELETE /v1/customers/cus_1".to_owned(),
        "POST /v1/payment_methods/pm_1/detach".to_owned(),
    ];
    assert_eq!(requests, expected);
}

#[tokio::test]
async fn a_payment_says_whether_the_customer_is_there() {
    let one = json!({"id": "pi_1"});
    let new = |presence, description| NewIntent {
        amount_cents: 99,
        currency: "usd",
        customer: "cus_1",
        payment_method: "pm_1",
        presence,
        description,
        metadata: &[],
    };
    let back = CustomerPresence::OnSession { return_url: Some("https://x.example/?a=1&b") };
    let there = CustomerPresence::OnSession { return_url: None };
    let common = "POST /v1/payment_intents\namount=99\ncurrency=usd\ncustomer=cus_1\n\
                  payment_method=pm_1\npayment_method_types[]=card\nconfirm=true";
    for (presence, description, before, after) in [
        (
            back,
            Some("10 credits"),
            "\ndescription=10 credits",
            "\nreturn_url=https://x.example/?a=1&b",
        ),
        (there, None, "", ""),
        (CustomerPresence::OffSession, None, "", "\noff_session=true"),
    ] {
        let new = new(presence, description);

        let made = request_of(&one, async |to| to.create_intent(&new, &key()).await).await;

        assert_eq!(made, format!("{common}{before}\nexpand[]=latest_charge{after}"));
    }
}

#[tokio::test]
async fn a_payment_is_confirmed_again_with_the_customer_there() {
    let one = json!({"id": "pi_1"});
    let plain = IntentConfirmation::default();
    let full =
        IntentConfirmation { payment_method: Some("pm_2"), return_url: Some("https://x.example") };

    let plain = request_of(&one, async |to| to.confirm_intent("pi_1", &plain, &key()).await).await;
    let full = request_of(&one, async |to| to.confirm_intent("pi_1", &full, &key()).await).await;

    let path = "POST /v1/payment_intents/pi_1/confirm";
    assert_eq!(plain, format!("{path}\noff_session=false"));
    let card = "payment_method=pm_2\nreturn_url=https://x.example";
    assert_eq!(full, format!("{path}\n{card}\noff_session=false"));
}

#[tokio::test]
async fn a_refund_without_an_amount_gives_back_all_that_is_left() {
    let one = json!({"id": "re_1"});
    let all =
        NewRefund { payment_intent: "pi_1", amount_cents: None, metadata: &[("order", "ord_1")] };
    let part = NewRefund { amount_cents: Some(1), ..all };

    let all = request_of(&one, async |to| to.create_refund(&all, &key()).await).await;
    let part = request_of(&one, async |to| to.create_refund(&part, &key()).await).await;

    assert_eq!(all, "POST /v1/refunds\npayment_intent=pi_1\nmetadata[order]=ord_1");
    assert_eq!(part, "POST /v1/refunds\npayment_intent=pi_1\namount=1\nmetadata[order]=ord_1");
}

#[tokio::test]
async fn products_and_prices_are_made_with_what_they_are_found_by() {
    let one = json!({"id": "x_1"});
    let named = NewProduct { id: Some("plan_pro"), name: "Pro", metadata: &[("plan_id", "pro")] };
    let unnamed = NewProduct { id: None, name: "Pro", metadata: &[] };
    let single = NewPrice {
        product: "plan_pro",
        unit_amount_cents: 0,
        currency: "usd",
        interval: None,
        lookup_key: None,
        is_taxed: false,
        metadata: &[],
    };
    let again = NewPrice {
        interval: Some("month"),
        lookup_key: Some("pro-month"),
        is_taxed: true,
        metadata: &[("plan_id", "pro")],
        ..single
    };
    let requests = [
        request_of(&one, async |to| to.create_product(&named, &key()).await).await,
        request_of(&one, async |to| to.create_product(&unnamed, &key()).await).await,
        request_of(&one, async |to| to.create_price(&single, &key()).await).await,
        request_of(&one, async |to| to.create_price(&again, &key()).await).await,
    ];

    let price = "POST /v1/prices\nproduct=plan_pro\nunit_amount=0\ncurrency=usd";
    let expected = [
        "POST /v1/products\nid=plan_pro\nname=Pro\nmetadata[plan_id]=pro".to_owned(),
        "POST /v1/products\nname=Pro".to_owned(),
        price.to_owned(),
        format!(
            "{price}\nrecurring[interval]=month\nlookup_key=pro-month\ntax_behavior=exclusive\n\
             metadata[plan_id]=pro"
        ),
    ];
    assert_eq!(requests, expected);
}

#[tokio::test]
async fn only_a_change_that_is_paid_at_once_fails_when_it_cannot_be_paid() {
    let one = json!({"id": "sub_1"});
    for (proration, expected) in [
        (
            ProrationBehavior::PayNow,
            "proration_behavior=always_invoice\npayment_behavior=error_if_incomplete\noff_session=true",
        ),
        (ProrationBehavior::NextInvoice, "proration_behavior=create_prorations"),
        (ProrationBehavior::None, "proration_behavior=none"),
    ] {
        let change = SubscriptionChange {
            items: &[],
            proration,
            proration_date: None,
            default_payment_method: None,
            cancel_at_period_end: None,
            metadata: &[],
        };

        let sent =
            request_of(&one, async |to| to.update_subscription("sub_1", &change, &key()).await)
                .await;

        let path = "POST /v1/subscriptions/sub_1";
        assert_eq!(sent, format!("{path}\n{expected}\nexpand[]=latest_invoice"));
    }
}

#[tokio::test]
async fn a_subscription_changes_by_its_items_its_card_and_its_end() {
    let one = json!({"id": "sub_1"});
    let written_out = ItemPrice::OfProduct {
        product: "prod_1",
        unit_amount_cents: 500,
        currency: "usd",
        interval: "year",
    };
    let items = [
        ItemChange { id: Some("si_1"), is_deleted: true, ..NO_CHANGE },
        ItemChange { price: Some(ItemPrice::Known("price_1")), quantity: Some(3), ..NO_CHANGE },
        ItemChange { id: Some("si_2"), price: Some(written_out), ..NO_CHANGE },
    ];
    let change = SubscriptionChange {
        items: &items,
        proration: ProrationBehavior::None,
        proration_date: Some(8),
        default_payment_method: Some("pm_1"),
        cancel_at_period_end: Some(false),
        metadata: &[("slots", "3")],
    };

    let sent =
        request_of(&one, async |to| to.update_subscription("sub_1", &change, &key()).await).await;
    let ended = request_of(&one, async |to| to.cancel_subscription("sub_1").await).await;

    let expected = lines(
        "POST /v1/subscriptions/sub_1
         items[0][id]=si_1
         items[0][deleted]=true
         items[1][quantity]=3
         items[1][price]=price_1
         items[2][id]=si_2
         items[2][price_data][currency]=usd
         items[2][price_data][unit_amount]=500
         items[2][price_data][product]=prod_1
         items[2][price_data][recurring][interval]=year
         proration_behavior=none
         proration_date=8
         default_payment_method=pm_1
         cancel_at_period_end=false
         metadata[slots]=3
         expand[]=latest_invoice",
    );
    assert_eq!((sent, ended.as_str()), (expected, "DELETE /v1/subscriptions/sub_1"));
}

#[tokio::test]
async fn a_preview_asks_for_the_change_that_would_be_made_and_needs_no_key() {
    let (wire, processor) = crate::support::replying(&json!({"total": 5}));
    let preview = InvoicePreview {
        subscription: "sub_1",
        items: &[ItemChange { id: Some("si_1"), quantity: Some(2), ..NO_CHANGE }],
        proration: ProrationBehavior::PayNow,
        proration_date: Some(9),
    };

    let invoice = processor.preview_invoice(&preview).await.unwrap();

    assert_eq!((invoice.id.as_str(), invoice.total), ("", 5));
    let text = wire.only();
    assert!(!text.to_ascii_lowercase().contains("idempotency-key"), "{text}");
    let again = request_of(&json!({}), async |to| to.preview_invoice(&preview).await).await;
    let expected = lines(
        "POST /v1/invoices/create_preview
         subscription=sub_1
         subscription_details[items][0][id]=si_1
         subscription_details[items][0][quantity]=2
         subscription_details[proration_behavior]=always_invoice
         subscription_details[proration_date]=9",
    );
    assert_eq!(again, expected);
}

#[tokio::test]
async fn an_endpoint_for_events_names_each_type_and_the_version_that_is_read_here() {
    let one = json!({"id": "we_1", "secret": "whsec_1"});
    let events = ["invoice.paid", "charge.refunded"];
    let url = "https://x.example/hook";
    let requests = [
        request_of(&one, async |to| to.create_webhook_endpoint(url, &events, &key()).await).await,
        request_of(&one, async |to| to.update_webhook_endpoint("we_1", &events[..1], &key()).await)
            .await,
        request_of(&json!({"id": "in_1"}), async |to| to.void_invoice("in_1", &key()).await).await,
    ];

    let expected = [
        "POST /v1/webhook_endpoints\nurl=https://x.example/hook\nenabled_events[0]=invoice.paid\n\
         enabled_events[1]=charge.refunded\napi_version=2026-03-25.dahlia\ndescription=creator-gateway",
        "POST /v1/webhook_endpoints/we_1\ndisabled=false\nenabled_events[0]=invoice.paid",
        "POST /v1/invoices/in_1/void",
    ];
    assert_eq!(requests, expected);
}
