//! Forms: what was sent is read and shown again as it was, with what is wrong beside it.

use console_kit::form::{FormData, FormView};
use console_kit::sure::{DangerousDeed, NAME_FIELD};
use http::StatusCode;

use super::refusal;

#[test]
fn fields_are_decoded_as_browsers_encode_them() {
    let data = FormData::of_query("name=M%C3%BCller+%26+S%C3%B6hne&note=a%2Bb%0D%0Ac&x=%zz&y=1=2");

    assert_eq!(data.text("name"), "Müller & Söhne");
    assert_eq!(data.raw("note"), "a+b\r\nc");
    assert_eq!(data.text("x"), "%zz", "what is no escape stays");
    assert_eq!(data.text("y"), "1=2");
    // Bytes that are no UTF-8 never make a form fail.
    assert_eq!(FormData::of_query("a=%ff%fe").text("a"), "\u{fffd}\u{fffd}");
}

#[test]
fn spaces_around_a_value_do_not_count_but_for_passwords() {
    let data = FormData::of_query("email=+ada%40example.com+&password=+secret+&blank=+++");

    assert_eq!(data.text("email"), "ada@example.com");
    assert_eq!(data.raw("password"), " secret ");
    assert_eq!((data.text("blank"), data.optional("blank")), ("", None));
    assert_eq!(data.optional("email"), Some("ada@example.com"));
    assert_eq!(data.optional("missing"), None);
}

#[test]
fn a_box_is_ticked_by_being_sent_whatever_its_value() {
    let data = FormData::of_query("on=&off_by_absence_only=false");

    assert!(data.is_ticked("on") && data.is_ticked("off_by_absence_only"));
    assert!(!data.is_ticked("never"));
}

#[test]
fn of_several_values_the_first_is_the_text_and_all_can_be_read() {
    let data = FormData::default()
        .with("name", "one")
        .with_all("accounts", vec![" ada ".to_owned(), "eve".to_owned()]);

    assert_eq!(data.all("accounts").collect::<Vec<_>>(), ["ada", "eve"]);
    assert_eq!(data.text("accounts"), "ada");
    assert_eq!(data.all("missing").count(), 0);
    let other = data.with("name", "two");
    assert_eq!(other.text("name"), "two", "a field is set anew");
}

#[test]
fn secrets_are_taken_out_before_a_form_is_shown_again() {
    let data = FormData::of_query("email=a%40b.c&password=secret&new_password=other");

    let view = FormView::filled(data.without(["password", "new_password", "never_sent"]));

    assert_eq!(view.value("email"), "a@b.c");
    assert_eq!((view.value("password"), view.value("new_password")), ("", ""));
}

#[test]
fn a_refusal_marks_its_fields_and_keeps_what_was_typed() {
    let data = FormData::of_query("name=x&budget=-5");
    let problem = refusal(422, "the request is invalid", &[("budget", "must be 1 or more")]);

    let view = FormView::refused(data, &problem, &[]);

    assert_eq!(view.problem("budget"), "Must be 1 or more.");
    assert_eq!(view.problem("name"), "");
    assert_eq!((view.value("name"), view.value("budget")), ("x", "-5"));
    assert_eq!(view.summary, "Check the fields marked below.");
    assert_eq!(view.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(view.is("name", "x") && !view.is("name", "X"));
}

#[test]
fn a_refusal_without_fields_says_what_is_wrong_with_the_whole() {
    let problem = refusal(409, "another change is in progress", &[]);

    let view = FormView::refused(FormData::default(), &problem, &[]);

    assert_eq!(view.summary, "Another change is in progress.");
    assert_eq!(view.problems().count(), 0);
    assert_eq!(view.status(), StatusCode::CONFLICT, "the page has the status of the refusal");
}

#[test]
fn fields_of_the_request_are_shown_at_those_of_the_form() {
    let problem = refusal(
        422,
        "",
        &[
            ("monthly_budget_credits", "must be 1 or more"),
            ("accounts.3", "there is no such account"),
            ("auth.token", "is required"),
            ("authority", "is unknown"),
        ],
    );
    let renamed =
        [("monthly_budget_credits", "budget"), ("accounts", "accounts"), ("auth", "credentials")];

    let view = FormView::refused(FormData::default(), &problem, &renamed);

    assert_eq!(view.problem("budget"), "Must be 1 or more.");
    assert_eq!(view.problem("accounts"), "There is no such account.");
    assert_eq!(view.problem("credentials"), "Is required.");
    assert_eq!(view.problem("authority"), "Is unknown.", "a longer name is another field");
    assert_eq!(view.problem("auth"), "");
}

#[test]
fn the_first_of_two_problems_of_a_field_is_shown() {
    let problem = refusal(422, "", &[("name", "is too long"), ("name", "has a line end")]);

    let view = FormView::refused(FormData::default(), &problem, &[]);

    assert_eq!(view.problem("name"), "Is too long.");
    assert_eq!(view.problems().count(), 1);
}

#[test]
fn a_field_that_the_page_itself_refuses_is_marked_too() {
    let clean = FormView::filled(FormData::default().with("to", "x"));
    assert_eq!((clean.status(), clean.summary.as_str()), (StatusCode::OK, ""));

    let marked = clean.mark("to", "There is no such day.");

    assert_eq!(marked.problem("to"), "There is no such day.");
    assert_eq!(marked.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(marked.value("to"), "x");
    // The words of a refusal stay when a field is marked beside it.
    let problem = refusal(403, "the password is wrong", &[]);
    let both = FormView::refused(FormData::default(), &problem, &[]).mark("password", "Wrong.");
    assert_eq!(both.summary, "The password is wrong.");
    assert_eq!(both.status(), StatusCode::FORBIDDEN);
}

#[test]
fn a_choice_is_among_the_values_that_were_sent() {
    let view = FormView::filled(FormData::of_query("columns=id&columns=+name+"));

    assert!(view.has("columns", "id") && view.has("columns", "name"));
    assert!(!view.has("columns", "na") && !view.has("missing", ""));
}

#[test]
fn what_cannot_be_undone_is_done_for_its_exact_name_alone() {
    let named = DangerousDeed {
        thing: "night import".to_owned(),
        asks_name: true,
        ..DangerousDeed::default()
    };
    let unasked = DangerousDeed { asks_name: false, ..DangerousDeed::default() };

    assert!(named.is_named("night import") && named.is_named("  night import\n"));
    for typed in ["", "Night import", "night  import", "night", "night import!"] {
        assert!(!named.is_named(typed), "{typed:?}");
    }
    assert!(unasked.is_named("anything"));
    let again = DangerousDeed::unnamed();
    assert_eq!(again.problem(NAME_FIELD), "That isn't the name. Type it exactly as shown.");
    assert_eq!(again.status(), StatusCode::UNPROCESSABLE_ENTITY);
}
