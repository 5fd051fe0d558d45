//! `#[both_databases]`: one test on SQLite and one on PostgreSQL from the same function, so that a
//! failure says which of them it is about.

use proc_macro::{TokenStream, TokenTree};

/// In place of `#[tokio::test]`, whose options it takes: makes the tests `NAME::sqlite` and
/// `NAME::postgres` of a function `NAME`. Both call it, and `store::testing::store` in it is a
/// database of the one kind or the other.
#[proc_macro_attribute]
pub fn both_databases(options: TokenStream, test: TokenStream) -> TokenStream {
    let Some(name) = name(test.clone()) else {
        return refusal("`both_databases` is for functions");
    };
    let written = format!(
        "mod {name} {{
            #[tokio::test({options})]
            async fn sqlite() {{
                store::testing::on_sqlite(super::{name}()).await;
            }}

            #[tokio::test({options})]
            async fn postgres() {{
                store::testing::on_postgres(super::{name}()).await;
            }}
        }}"
    );
    match written.parse::<TokenStream>() {
        Ok(tests) => test.into_iter().chain(tests).collect(),
        Err(error) => refusal(&error.to_string()),
    }
}

/// The word that follows `fn`.
fn name(test: TokenStream) -> Option<String> {
    let mut words = test.into_iter().skip_while(|token| !is_fn(token)).skip(1);
    words.next().map(|name| name.to_string())
}

fn is_fn(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Ident(word) if word.to_string() == "fn")
}

/// An error of the compiler with this message.
fn refusal(message: &str) -> TokenStream {
    format!("::core::compile_error!({message:?});").parse().unwrap_or_default()
}
