//! Colors that can be read on our pages: their contrast (WCAG 2.2, success criterion 1.4.3).

/// The least contrast of text with what is behind it.
const CONTRAST_MIN: f64 = 4.5;

/// What a theme of the pages (`crates/pages/src/console.css`) puts beside the accent.
pub(super) struct ThemeColors {
    /// Of panels and of the ground, on which links have the accent.
    grounds: [Rgb; 2],
    /// Of text on the accent.
    text: Rgb,
    /// Toward which a color changes to gain contrast.
    end: Rgb,
}

/// Red, green and blue.
#[derive(Clone, Copy)]
struct Rgb([u8; 3]);

const WHITE: Rgb = Rgb([0xff; 3]);

pub(super) const LIGHT: ThemeColors =
    ThemeColors { grounds: [WHITE, Rgb([0xf6, 0xf7, 0xf8])], text: WHITE, end: Rgb([0; 3]) };
pub(super) const DARK: ThemeColors = ThemeColors {
    grounds: [Rgb([0x16, 0x1a, 0x1d]), Rgb([0x0f, 0x12, 0x14])],
    text: Rgb([0x06, 0x22, 0x2a]),
    end: WHITE,
};

impl ThemeColors {
    /// Checks an accent. The error says what to do, and names the closest color that can be read.
    pub(super) fn check(&self, text: &str) -> Result<(), String> {
        let color = Rgb::read(text).ok_or("must be a color such as #0b6175")?;
        let contrast = self.contrast(color);
        if contrast >= CONTRAST_MIN {
            return Ok(());
        }
        Err(format!(
            "has a contrast of {contrast:.1}:1 where {CONTRAST_MIN}:1 is needed to be read; the closest color with it is {}",
            self.closest(color)
        ))
    }

    /// The least contrast of an accent with what is around it and on it.
    fn contrast(&self, accent: Rgb) -> f64 {
        let around = [self.grounds[0], self.grounds[1], self.text];
        around.into_iter().map(|other| accent.contrast(other)).fold(f64::INFINITY, f64::min)
    }

    /// The color in steps toward the end of this theme until it can be read.
    fn closest(&self, color: Rgb) -> String {
        let steps = (1..=100_u16).map(|part| color.toward(self.end, part));
        let readable = steps.into_iter().find(|one| self.contrast(*one) >= CONTRAST_MIN);
        let Rgb([red, green, blue]) = readable.unwrap_or(self.end);
        format!("#{red:02x}{green:02x}{blue:02x}")
    }
}

impl Rgb {
    fn read(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
        let number = u32::from_str_radix(digits, 16).ok()?;
        let [_, red, green, blue] = number.to_be_bytes();
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(Self([red, green, blue]))
    }

    /// This color with a part, in percent, of another.
    fn toward(self, end: Self, percent: u16) -> Self {
        let mut mixed = self.0;
        for (own, other) in mixed.iter_mut().zip(end.0) {
            let sum = u16::from(*own) * (100 - percent) + u16::from(other) * percent;
            *own = u8::try_from(sum / 100).unwrap_or(u8::MAX);
        }
        Self(mixed)
    }

    /// The contrast ratio of two colors, from 1 to 21.
    fn contrast(self, other: Self) -> f64 {
        let (one, two) = (self.luminance(), other.luminance());
        (one.max(two) + 0.05) / (one.min(two) + 0.05)
    }

    /// The relative luminance, from 0 to 1.
    fn luminance(self) -> f64 {
        let [red, green, blue] = self.0.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126_f64.mul_add(red, 0.7152_f64.mul_add(green, 0.0722 * blue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrasts_are_those_of_the_standard() {
        let black = Rgb([0; 3]);
        assert!((black.contrast(WHITE) - 21.0).abs() < 1e-9);
        assert!((WHITE.contrast(WHITE) - 1.0).abs() < 1e-9);
        // #767676 is the lightest gray that can be read on white.
        assert!(Rgb([0x76; 3]).contrast(WHITE) >= 4.5);
        assert!(Rgb([0x77; 3]).contrast(WHITE) < 4.5);
    }

    #[test]
    fn a_color_that_cannot_be_read_is_refused_with_one_that_can() {
        for (theme, color) in [(&LIGHT, "#ffd400"), (&LIGHT, "#5fc0d5"), (&DARK, "#0b6175")] {
            let message = theme.check(color).unwrap_err();
            let proposed = message.rsplit(' ').next().unwrap();
            theme.check(proposed).unwrap();
            assert!(message.contains(":1 where 4.5:1"), "{message}");
        }
        LIGHT.check("#0b6175").unwrap();
        DARK.check("#5fc0d5").unwrap();
        for wrong in ["blue", "#12345", "#+12345", "0b6175", "#0b61750"] {
            assert_eq!(LIGHT.check(wrong).unwrap_err(), "must be a color such as #0b6175");
        }
    }
}
