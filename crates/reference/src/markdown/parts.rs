//! The parts of a page that are more than a tag: code with a button that copies it, images.

use super::escape;

/// The drawing on copy buttons; templates have the same in their shared parts.
const COPY_ICON: &str = "<svg class=\"i\" viewBox=\"0 0 16 16\" aria-hidden=\"true\"><rect x=\"5.5\" y=\"5.5\" \
    width=\"8\" height=\"8\" rx=\"1.5\"/><path d=\"M10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2\"/></svg>";

/// A block of code. The number tells the blocks of a page apart.
pub(crate) fn code_block(language: &str, code: &str, number: usize) -> String {
    let language = if language.is_empty() { "text" } else { language };
    let (language, code) = (escape(language), escape(code.trim_end_matches('\n')));
    format!(
        "<div class=\"code\"><header><span class=\"muted\">{language}</span><button class=\"btn small quiet\" \
         type=\"button\" data-copy=\"#code{number}\" hidden>{COPY_ICON}<span>Copy</span></button></header>\
         <pre id=\"code{number}\" tabindex=\"0\" role=\"group\" aria-label=\"Example {number}, {language}\"><code>{code}</code></pre></div>\n"
    )
}

/// An image.
pub(super) fn image(address: &str, alt: &str) -> String {
    format!("<img class=\"figure\" src=\"{}\" alt=\"{}\">", escape(address), escape(alt))
}
