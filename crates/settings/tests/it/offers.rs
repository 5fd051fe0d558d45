//! What is sold, and the processor it is paid through.

use settings::Config;

use crate::{problems, said};

/// A list of one offer with other fields.
fn offer(list: &str, usual: &str, fields: &str) -> toml::Table {
    let mut offer: toml::Table = usual.parse().unwrap();
    offer.extend(fields.parse::<toml::Table>().unwrap());
    toml::Table::from_iter([(list.to_owned(), vec![offer].into())])
}

/// A pack with other fields.
fn pack(fields: &str) -> String {
    offer("packs", "id = \"a\"\nname = \"A\"\ncredits = 5\nprice_cents = 100", fields).to_string()
}

/// A plan with other fields.
fn plan(fields: &str) -> String {
    let usual = "id = \"a\"\nname = \"A\"\nmonthly_credits = 5\nprice_cents = 100\nplatforms = {}";
    offer("plans", usual, fields).to_string()
}

const PRICE: &str = "must be 50 to 99,999,999: the processor charges no smaller or larger amount";
const ID: &str = "must be 1 to 64 letters, digits, `_` and `-`";
const PRICE_ID: &str = "must be empty or the id of a price, such as price_1AbC";

#[test]
fn each_wrong_field_of_a_pack_or_a_plan_is_refused_under_its_number() {
    let long = format!("name = \"{}\"", "x".repeat(101));
    let long_id = format!("id = \"{}\"", "x".repeat(65));
    for (fields, key, message) in [
        ("id = \"\"", "id", ID),
        ("id = \"a b\"", "id", ID),
        ("id = \"ä\"", "id", ID),
        (long_id.as_str(), "id", ID),
        ("name = \"\"", "name", "must be 1 to 100 characters"),
        ("name = \"a\\nb\"", "name", "must be 1 to 100 characters"),
        (long.as_str(), "name", "must be 1 to 100 characters"),
        ("price_cents = 49", "price_cents", PRICE),
        ("price_cents = 100000000", "price_cents", PRICE),
        ("price_cents = -100", "price_cents", PRICE),
        ("price_id = \"price-1\"", "price_id", PRICE_ID),
        ("price_id = \" \"", "price_id", PRICE_ID),
    ] {
        let expected = |list: &str| [(format!("{list}[0].{key}"), message.to_owned())];

        assert_eq!(problems(&pack(fields)), expected("packs"), "{fields}");
        assert_eq!(problems(&plan(fields)), expected("plans"), "{fields}");
    }
    for (toml, key, message) in [
        (pack("credits = 0"), "packs[0].credits", "must be 1 to 1,000,000,000"),
        (pack("credits = 1000000001"), "packs[0].credits", "must be 1 to 1,000,000,000"),
        (plan("monthly_credits = -1"), "plans[0].monthly_credits", "must be 0 to 1,000,000,000"),
        (
            plan("platforms = { platform_alpha = -1 }"),
            "plans[0].platforms.platform_alpha",
            "must be 0 to 100,000",
        ),
        (pack("monthly_credits = 5"), "packs[0].monthly_credits", "is unknown; did you mean"),
    ] {
        let said = said(&toml, key).unwrap_or_else(|| panic!("{toml}"));
        assert!(said.starts_with(message) || said.starts_with("is unknown"), "{toml}: {said}");
    }
}

#[test]
fn what_can_be_sold_is_taken() {
    for toml in [
        pack("price_cents = 50\ncredits = 1\nid = \"A-b_9\""),
        pack("price_cents = 99999999\ncredits = 1000000000\nprice_id = \"price_1AbC\""),
        plan("monthly_credits = 0\nplatforms = { platform_alpha = 100000 }\nretired = true"),
        "packs = []\nplans = []".to_owned(),
    ] {
        assert_eq!(problems(&toml), [], "{toml}");
    }
}

#[test]
fn an_id_is_used_once_for_packs_and_once_for_plans() {
    let two = |list: fn(&str) -> String| format!("{}\n{}", list(""), list("name = \"B\""));

    let packs = problems(&two(pack));
    let plans = problems(&two(plan));
    let one_of_each = problems(&format!("{}\n{}", pack(""), plan("")));

    assert_eq!(packs, [("packs[1].id".to_owned(), "is the id of an earlier pack".to_owned())]);
    assert_eq!(plans, [("plans[1].id".to_owned(), "is the id of an earlier plan".to_owned())]);
    assert_eq!(one_of_each, []);
}

#[test]
fn a_slot_is_sold_where_it_has_a_price() {
    use domain::platform::Platform;
    let config = Config::from_toml("slots.prices.platform_alpha.price_cents = 0").unwrap();

    assert!(config.slots.prices.of(Platform::ALPHA).is_none());
    assert_eq!(config.slots.prices.of(Platform::BETA).unwrap().price_cents, 1_500);
    let sold: Vec<Platform> = config.slots.prices.sold().map(|(platform, _)| platform).collect();
    assert_eq!(sold, [Platform::BETA]);
    assert_eq!(config.slots.included_on(Platform::DELTA), 3);
}

/// A processor that is configured, with other fields.
fn processor(fields: &str) -> Vec<(String, String)> {
    let mut table: toml::Table = "
        base_url = \"https://api.example.com\"
        js_url = \"https://js.example.com/v3/\"
        secret_key = \"sk_test_1\"
        publishable_key = \"pk_test_1\"
        webhook_secrets = [\"whsec_0123456789abcdef0123\"]"
        .parse()
        .unwrap();
    table.extend(fields.parse::<toml::Table>().unwrap());
    problems(&format!("[processor]\n{table}"))
}

#[test]
fn a_processor_needs_all_of_its_keys_and_they_belong_together() {
    assert_eq!(processor(""), []);
    let mode = "must be of the same mode, test or live, as processor.secret_key";
    let secret = "is a secret key, and would be shown to browsers: use the publishable key (pk_…), and \
                  replace this one at the processor if it was ever in use here";
    let events = "needs the signing secret of the webhook endpoint (whsec_…): without it anybody could say \
                  that something was paid";
    let clear = "must be https: the live secret key would cross the network in the clear";
    let url = "must be a URL such as https://example.com/billing";
    for (fields, key, message) in [
        ("js_url = \"\"", "js_url", "is required with processor.base_url"),
        ("publishable_key = \"\"", "publishable_key", "is required with processor.base_url"),
        ("publishable_key = \"sk_test_1\"", "publishable_key", secret),
        ("publishable_key = \"rk_live_1\"", "publishable_key", secret),
        (
            "secret_key = \"\"",
            "secret_key",
            "is required with processor.base_url, in visible ASCII",
        ),
        ("webhook_secrets = []", "webhook_secrets", events),
        (
            "webhook_secrets = [\"whsec_0123456789abcdef0\"]",
            "webhook_secrets[0]",
            "must have 24 bytes or more",
        ),
        ("livemode = true", "livemode", mode),
        ("secret_key = \"sk_live_1\"", "livemode", mode),
        (
            "base_url = \"http://api.example.com\"\nsecret_key = \"rk_live_1\"\nlivemode = true",
            "base_url",
            clear,
        ),
        (
            "js_url = \"http://js.example.com/v3/\"\nsecret_key = \"rk_live_1\"\nlivemode = true",
            "js_url",
            "must be https: whoever changes the script on its way reads cards",
        ),
        (
            "base_url = \"https://api.example.com/v1\"",
            "base_url",
            "must end after the host: paths begin with /v1 there",
        ),
        ("success_url = \"example.com/done\"", "success_url", url),
        ("cancel_url = \"javascript:alert(1)\"", "cancel_url", url),
        ("return_url = \"https://ada@example.com\"", "return_url", url),
        ("js_url = \"js.example.com\"", "js_url", url),
    ] {
        assert_eq!(
            processor(fields),
            [(format!("processor.{key}"), message.to_owned())],
            "{fields}"
        );
    }
    for good in [
        "base_url = \"http://127.0.0.1:12111\"\nsecret_key = \"sk_live_1\"\nlivemode = true",
        "success_url = \"https://x.example/?s={CHECKOUT_SESSION_ID}\"",
        "secret_key = \"another-form\"\nlivemode = true",
        "webhook_secrets = [\"whsec_0123456789abcdef0123\", \"whsec_0123456789abcdef0124\"]",
    ] {
        assert_eq!(processor(good), [], "{good}");
    }
}

#[test]
fn without_a_processor_its_other_settings_are_still_read() {
    let said = said("processor.publishable_key = \"sk_live_1\"", "processor.publishable_key");

    assert!(said.unwrap().starts_with("is a secret key"));
    assert!(Config::from_toml("").unwrap().processor.client().unwrap().is_none());
}

#[test]
fn customers_come_back_to_pages_of_the_service_unless_others_are_named() {
    let base = "https://gateway.example";
    let usual = Config::from_toml("").unwrap().processor;
    let own = Config::from_toml(
        "[processor]\nsuccess_url = \"https://a.example\"\ncancel_url = \"https://b.example\"\n\
         return_url = \"https://c.example\"",
    )
    .unwrap()
    .processor;

    let all = |processor: &settings::billing::ProcessorSection| {
        [
            processor.success_url(base),
            processor.cancel_url(base),
            processor.return_url(base),
            processor.billing_url(base),
        ]
    };
    let page = |path: &str| format!("{base}/console/billing{path}");
    let expected = [
        page("/return?session_id={CHECKOUT_SESSION_ID}"),
        page("/return?cancelled=true"),
        page("/return"),
        page(""),
    ];
    assert_eq!(all(&usual), expected);
    assert_eq!(all(&own), ["a", "b", "c", "c"].map(|host| format!("https://{host}.example")));
}
