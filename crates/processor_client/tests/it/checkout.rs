//! Pages of the processor's: what is asked for when one is opened.

use processor_client::objects::PortalConfiguration;
use processor_client::{
    CheckoutLine, CheckoutPurpose, CheckoutQuestions, LinePrice, NewCheckout, NewPortal,
    PortalFlow, PortalOffer, ProcessorError,
};
use serde_json::{Value, json};

use crate::support::{key, lines, replying, request_of};

const NO_QUESTIONS: CheckoutQuestions = CheckoutQuestions {
    automatic_tax: false,
    billing_address: false,
    tax_ids: false,
    promotion_codes: false,
};
const CHECKOUT: NewCheckout<'_> = NewCheckout {
    purpose: CheckoutPurpose::Payment,
    customer: "cus_1",
    client_reference_id: None,
    lines: &[],
    success_url: "https://x.example/done?s={CHECKOUT_SESSION_ID}",
    cancel_url: "https://x.example/",
    metadata: &[],
    expires_at: None,
    asks: NO_QUESTIONS,
    makes_invoice: false,
};

async fn opened(new: NewCheckout<'_>) -> String {
    let one = json!({"id": "cs_1"});
    request_of(&one, async |to| to.create_checkout(&new, &key()).await).await
}

/// The parameters of a page that come after those that every page has.
async fn special(new: NewCheckout<'_>) -> Vec<String> {
    let all = opened(new).await;
    let (_, special) = all.split_once("payment_method_types[]=card").unwrap();
    special.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_page_for_one_payment_keeps_the_card_and_copies_what_the_order_is_known_by() {
    let new = NewCheckout {
        client_reference_id: Some("ord_1"),
        expires_at: Some(1_800),
        metadata: &[("order_id", "ord_1")],
        ..CHECKOUT
    };

    let expected = lines(
        "POST /v1/checkout/sessions
         mode=payment
         customer=cus_1
         client_reference_id=ord_1
         success_url=https://x.example/done?s={CHECKOUT_SESSION_ID}
         cancel_url=https://x.example/
         expires_at=1800
         payment_method_types[]=card
         metadata[order_id]=ord_1
         payment_intent_data[metadata][order_id]=ord_1
         payment_intent_data[setup_future_usage]=off_session",
    );
    assert_eq!(opened(new).await, expected);
}

#[tokio::test]
async fn a_page_for_a_subscription_shows_the_discounts_of_its_prorations() {
    let metadata = &[("order_id", "ord_1")];
    let new = NewCheckout { purpose: CheckoutPurpose::Subscription, metadata, ..CHECKOUT };

    let expected = [
        "metadata[order_id]=ord_1",
        "subscription_data[metadata][order_id]=ord_1",
        "subscription_data[billing_mode][type]=flexible",
        "subscription_data[billing_mode][flexible][proration_discounts]=itemized",
    ];
    assert_eq!(special(new).await, expected);
}

#[tokio::test]
async fn only_a_payment_is_asked_to_make_an_invoice() {
    let metadata = &[("order_id", "ord_1")];
    let payment = NewCheckout { makes_invoice: true, metadata, ..CHECKOUT };
    let subscription = NewCheckout { purpose: CheckoutPurpose::Subscription, ..payment };

    let (payment, subscription) = (special(payment).await, special(subscription).await);

    let expected = [
        "invoice_creation[enabled]=true",
        "invoice_creation[invoice_data][metadata][order_id]=ord_1",
    ];
    assert_eq!(payment[payment.len() - 2..], expected);
    let names_invoice = |line: &String| line.starts_with("invoice_creation");
    assert!(!subscription.iter().any(names_invoice), "{subscription:?}");
}

#[tokio::test]
async fn each_question_is_asked_with_what_saves_its_answer() {
    let setup = "payment_intent_data[setup_future_usage]=off_session";
    for (asks, expected) in [
        (NO_QUESTIONS, &[][..]),
        (
            CheckoutQuestions { automatic_tax: true, ..NO_QUESTIONS },
            &["automatic_tax[enabled]=true", "customer_update[address]=auto"],
        ),
        (
            CheckoutQuestions { billing_address: true, ..NO_QUESTIONS },
            &["billing_address_collection=required", "customer_update[address]=auto"],
        ),
        (
            CheckoutQuestions { tax_ids: true, ..NO_QUESTIONS },
            &["tax_id_collection[enabled]=true", "customer_update[name]=auto"],
        ),
        (
            CheckoutQuestions { promotion_codes: true, ..NO_QUESTIONS },
            &["allow_promotion_codes=true"],
        ),
        (
            CheckoutQuestions {
                automatic_tax: true,
                billing_address: true,
                tax_ids: true,
                promotion_codes: true,
            },
            &[
                "automatic_tax[enabled]=true",
                "billing_address_collection=required",
                "tax_id_collection[enabled]=true",
                "allow_promotion_codes=true",
                "customer_update[address]=auto",
                "customer_update[name]=auto",
            ],
        ),
    ] {
        let sent = special(NewCheckout { asks, ..CHECKOUT }).await;

        assert_eq!(sent[0], setup);
        assert_eq!(sent[1..], *expected, "{asks:?}");
    }
}

#[tokio::test]
async fn lines_name_a_price_or_write_one_out() {
    let inline = LinePrice::Inline {
        name: "10 credits",
        unit_amount_cents: 1_000,
        currency: "usd",
        interval: None,
    };
    let of_product = LinePrice::OfProduct {
        product: "prod_1",
        unit_amount_cents: 500,
        currency: "usd",
        interval: Some("year"),
    };
    let bought = [
        CheckoutLine { price: LinePrice::Known("price_1"), quantity: 2 },
        CheckoutLine { price: inline, quantity: 1 },
        CheckoutLine { price: of_product, quantity: 1 },
    ];

    let sent = special(NewCheckout { lines: &bought, ..CHECKOUT }).await;

    let expected = lines(
        "line_items[0][quantity]=2
         line_items[0][price]=price_1
         line_items[1][quantity]=1
         line_items[1][price_data][currency]=usd
         line_items[1][price_data][unit_amount]=1000
         line_items[1][price_data][product_data][name]=10 credits
         line_items[2][quantity]=1
         line_items[2][price_data][currency]=usd
         line_items[2][price_data][unit_amount]=500
         line_items[2][price_data][product]=prod_1
         line_items[2][price_data][recurring][interval]=year",
    );
    assert_eq!(sent[1..].join("\n"), expected);
}

#[tokio::test]
async fn with_tax_every_price_that_is_written_out_is_without_it() {
    let inline =
        LinePrice::Inline { name: "n", unit_amount_cents: 1, currency: "usd", interval: None };
    let of_product = LinePrice::OfProduct {
        product: "p",
        unit_amount_cents: 1,
        currency: "usd",
        interval: None,
    };
    let bought = [LinePrice::Known("price_1"), inline, of_product]
        .map(|price| CheckoutLine { price, quantity: 1 });
    let asks = CheckoutQuestions { automatic_tax: true, ..NO_QUESTIONS };

    let sent = special(NewCheckout { lines: &bought, asks, ..CHECKOUT }).await;

    let behaviors: Vec<_> = sent.iter().filter(|line| line.contains("tax_behavior")).collect();
    assert_eq!(
        behaviors,
        [
            "line_items[1][price_data][tax_behavior]=exclusive",
            "line_items[2][price_data][tax_behavior]=exclusive",
        ]
    );
}

#[tokio::test]
async fn a_page_is_closed_by_its_id() {
    let one = json!({"id": "cs_1"});

    let closed = request_of(&one, async |to| to.expire_checkout("cs_1", &key()).await).await;

    assert_eq!(closed, "POST /v1/checkout/sessions/cs_1/expire");
}

#[tokio::test]
async fn the_portal_opens_where_it_is_told_to() {
    let one = json!({"id": "bps_1", "url": "https://portal.example/x"});
    let plain = NewPortal {
        customer: "cus_1",
        return_url: "https://x.example/billing",
        configuration: None,
        flow: None,
    };
    let head =
        "POST /v1/billing_portal/sessions\ncustomer=cus_1\nreturn_url=https://x.example/billing";
    for (new, expected) in [
        (plain, ""),
        (NewPortal { configuration: Some("bpc_1"), ..plain }, "\nconfiguration=bpc_1"),
        (
            NewPortal { flow: Some(PortalFlow::UpdateCard), ..plain },
            "\nflow_data[type]=payment_method_update",
        ),
        (
            NewPortal { flow: Some(PortalFlow::Cancel("sub_1")), ..plain },
            "\nflow_data[type]=subscription_cancel\nflow_data[subscription_cancel][subscription]=sub_1",
        ),
    ] {
        let sent = request_of(&one, async |to| to.create_portal(&new, &key()).await).await;

        assert_eq!(sent, format!("{head}{expected}"));
    }
}

#[tokio::test]
async fn no_portal_of_ours_lets_a_customer_change_plans() {
    let one = json!({"id": "bpc_1"});
    for (offer, name, more) in [
        (PortalOffer::of(false), "creator-gateway 1", ""),
        (
            PortalOffer::of(true),
            "creator-gateway 1 with companies",
            "\nfeatures[customer_update][enabled]=true
             features[customer_update][allowed_updates][0]=address
             features[customer_update][allowed_updates][1]=name
             features[customer_update][allowed_updates][2]=tax_id",
        ),
    ] {
        let sent =
            request_of(&one, async |to| to.create_portal_configuration(offer, &key()).await).await;

        let expected = format!(
            "POST /v1/billing_portal/configurations
             features[payment_method_update][enabled]=true
             features[invoice_history][enabled]=true
             features[subscription_cancel][enabled]=true
             features[subscription_cancel][mode]=at_period_end
             features[subscription_update][enabled]=false
             metadata[made_by]={name}{more}"
        );
        assert_eq!(sent, lines(&expected));
    }
}

async fn found(all: &Value, offer: PortalOffer) -> Option<PortalConfiguration> {
    let (_wire, processor) = replying(&json!({"data": all}));
    processor.find_portal_configuration(offer).await.unwrap()
}

#[tokio::test]
async fn a_portal_of_another_program_or_another_offer_is_not_taken_for_ours() {
    let all = json!([
        {"id": "bpc_1"},
        {"id": "bpc_2", "metadata": {"made_by": "somebody"}},
        {"id": "bpc_3", "metadata": {"made_by": "creator-gateway 1 with companies"}},
        {"id": "bpc_4", "metadata": {"made_by": "creator-gateway 1"}},
        {"id": "bpc_5", "metadata": {"made_by": "creator-gateway 1"}},
    ]);

    let id = async |offer| found(&all, offer).await.map(|portal| portal.id);
    // The first of a list is the newest.
    assert_eq!(id(PortalOffer::Plain).await.as_deref(), Some("bpc_4"));
    assert_eq!(id(PortalOffer::Company).await.as_deref(), Some("bpc_3"));
    assert!(found(&json!([]), PortalOffer::Plain).await.is_none());
    assert!(found(&Value::Null, PortalOffer::Plain).await.is_none());
}

#[tokio::test]
async fn only_portals_in_use_are_looked_through() {
    let page = json!({"data": []});

    let sent =
        request_of(&page, async |to| to.find_portal_configuration(PortalOffer::Plain).await).await;

    assert_eq!(sent, "GET /v1/billing_portal/configurations\nlimit=100\nactive=true");
}

#[tokio::test]
async fn a_portal_without_an_address_is_no_answer() {
    let (_wire, processor) = replying(&json!({"id": "bps_1"}));
    let new = NewPortal {
        customer: "cus_1",
        return_url: "https://x.example",
        configuration: None,
        flow: None,
    };

    let opened = processor.create_portal(&new, &key()).await;

    // The link may have been made: that is not certain.
    assert!(matches!(opened, Err(ProcessorError::Unknown(_))), "{opened:?}");
}
