//! Percent encoding: the pairs of queries and forms, and segments of paths.

/// What a plus sign means: itself in paths, a space in queries and forms.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    Kept,
    Space,
}

/// The pairs of a query or a form, decoded.
pub fn parse_pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let split = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    split
        .map(|(key, value)| (percent_decode(key, Plus::Space), percent_decode(value, Plus::Space)))
        .collect()
}

/// A segment of a path, decoded.
pub fn decode_segment(text: &str) -> String {
    percent_decode(text, Plus::Kept)
}

/// Invalid percent encoding stays unchanged.
fn percent_decode(text: &str, plus: Plus) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.split_at_checked(2)).flatten();
        let byte = escaped.and_then(|(digits, behind)| {
            let digits = std::str::from_utf8(digits).ok()?;
            let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            Some((u8::from_str_radix(digits, 16).ok().filter(|_| plain)?, behind))
        });
        match byte {
            Some((byte, behind)) => {
                decoded.push(byte);
                rest = behind;
            }
            None => {
                decoded.push(if *first == b'+' && plus == Plus::Space { b' ' } else { *first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every byte as a percent and two digits.
    fn encoded(text: &str) -> String {
        text.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat()
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_to_the_same(name in "\\PC{0,8}", value in "\\PC{0,8}") {
            let pair = format!("{}={}", encoded(&name), encoded(&value).to_uppercase());

            prop_assert_eq!(decode_segment(&encoded(&value)), value.clone());
            prop_assert_eq!(parse_pairs(&pair), [(name, value)]);
        }

        #[test]
        fn nothing_but_percents_and_pluses_is_changed(text in "[^%+]{0,12}") {
            prop_assert_eq!(decode_segment(&text), text);
        }

        #[test]
        fn any_text_is_some_pairs(text in "[%+=&a0Ff\u{fc}]{0,24}") {
            let pairs = parse_pairs(&text);

            prop_assert!(pairs.len() <= text.split('&').count());
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(decode_segment("a%ff%C3%A9%c3"), "a\u{fffd}\u{e9}\u{fffd}");
        assert_eq!(decode_segment("%+1%1%"), "%+1%1%");
        assert_eq!(
            parse_pairs("==a&=&&b"),
            [("", "=a"), ("", ""), ("b", "")].map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
    }

    #[test]
    fn queries_and_segments_are_decoded() {
        let pairs = parse_pairs("name=a+b%20c&broken=%zz&flag&sign=1%2B1");
        let expected = [("name", "a b c"), ("broken", "%zz"), ("flag", ""), ("sign", "1+1")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(pairs, expected);
        assert_eq!(decode_segment("a%2Fb+c"), "a/b+c");
    }
}
