//! What stands between the quotes of a string: its plain bytes and its escapes.

/// The text of a string whose escapes are known to be valid.
pub(super) fn unescaped(written: &str) -> String {
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let mut characters = escape.chars();
        match characters.next() {
            Some('u') => {
                let (character, after) = unicode_escape(escape.get(1..).unwrap_or_default());
                text.push(character);
                rest = after;
                continue;
            }
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some(same) => text.push(same),
            None => {}
        }
        rest = characters.as_str();
    }
    text.push_str(rest);
    text
}

/// The character of a `\u` escape, with a second escape if it is a pair, and the rest of the text.
fn unicode_escape(digits: &str) -> (char, &str) {
    let (first, rest) = hexadecimal(digits);
    if let Some(character) = char::from_u32(first) {
        return (character, rest);
    }
    if first < 0xdc00
        && let Some(second) = rest.strip_prefix("\\u")
    {
        let (second, after) = hexadecimal(second);
        if (0xdc00..0xe000).contains(&second) {
            let scalar = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return (char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER), after);
        }
    }
    (char::REPLACEMENT_CHARACTER, rest)
}

fn hexadecimal(digits: &str) -> (u32, &str) {
    let (number, rest) = digits.split_at_checked(4).unwrap_or((digits, ""));
    (u32::from_str_radix(number, 16).unwrap_or(0xfffd), rest)
}

/// The number of leading bytes that need no escaping or checking in a string. Tests eight at a
/// time.
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut length = 0;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        let quote = word ^ (ONES * 0x22);
        let backslash = word ^ (ONES * 0x5c);
        // A byte's high bit is set if it is zero, or, for the last, below 0x20. A borrow may set
        // more bits above the lowest such byte, which does no harm.
        let found = (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        let found = found & HIGH;
        if found != 0 {
            return length + found.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    length + rest.iter().take_while(|byte| !matches!(byte, 0..0x20 | b'"' | b'\\')).count()
}
