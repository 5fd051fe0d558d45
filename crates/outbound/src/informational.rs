//! Counts the informational answers (1xx) that come before a real one on HTTP/1.1, in the bytes as
//! they arrive: hyper swallows them without an end.

/// The most informational answers before the real one.
const INFORMATIONAL_MAX: u8 = 8;

/// What a status line begins with, up to the first digit of its status: `HTTP/1.1 1`.
const BEGINNING_BYTES: usize = 10;

/// Follows the answers to one request up to the head of the real one, of which it looks at ten
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InformationalResponses {
    count: u8,
    place: HeadPosition,
}

/// Where in the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadPosition {
    /// So many bytes into a status line.
    Beginning(usize),
    /// In the head of an informational answer; whether the line has anything in it yet.
    Head { is_empty_line: bool },
    /// In the real answer: nothing more is looked at.
    Real,
}

impl InformationalResponses {
    /// Before the first byte of an answer.
    pub(super) const fn new() -> Self {
        Self { count: 0, place: HeadPosition::Beginning(0) }
    }

    /// Takes in what arrived. True when there were too many.
    pub(super) fn are_too_many(&mut self, mut arrived: &[u8]) -> bool {
        while let Some((byte, rest)) = arrived.split_first() {
            match self.place {
                HeadPosition::Real => return false,
                HeadPosition::Beginning(at) => self.begin(at, *byte),
                HeadPosition::Head { is_empty_line } => {
                    self.place = match byte {
                        b'\n' if is_empty_line => HeadPosition::Beginning(0),
                        b'\n' => HeadPosition::Head { is_empty_line: true },
                        b'\r' => HeadPosition::Head { is_empty_line },
                        _ => HeadPosition::Head { is_empty_line: false },
                    };
                }
            }
            arrived = rest;
            if self.count > INFORMATIONAL_MAX {
                return true;
            }
        }
        false
    }

    fn begin(&mut self, at: usize, byte: u8) {
        // Empty lines before a status line are passed over, as hyper does.
        if at == 0 && matches!(byte, b'\r' | b'\n') {
            return;
        }
        self.place = if at + 1 < BEGINNING_BYTES {
            HeadPosition::Beginning(at + 1)
        } else if byte == b'1' {
            self.count = self.count.saturating_add(1);
            HeadPosition::Head { is_empty_line: false }
        } else {
            HeadPosition::Real
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HINT: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";

    fn verdict(bytes: &[u8], piece: usize) -> bool {
        let mut seen = InformationalResponses::new();
        bytes.chunks(piece).any(|piece| seen.are_too_many(piece))
    }

    #[test]
    fn eight_are_borne_and_nine_are_too_many_however_they_arrive() {
        for piece in [1, 2, 3, 7, 40, 10_000] {
            let eight = [HINT.repeat(8).as_slice(), b"HTTP/1.1 200 OK\r\n\r\n"].concat();
            assert!(!verdict(&eight, piece), "{piece}");
            assert!(verdict(&HINT.repeat(9), piece), "{piece}");
        }
    }

    #[test]
    fn lines_that_end_with_a_line_feed_alone_and_empty_lines_between_change_nothing() {
        assert!(verdict(&b"HTTP/1.1 100 Continue\n\n".repeat(9), 5));
        assert!(verdict(&b"\r\nHTTP/1.1 100 Continue\r\n\r\n".repeat(9), 5));
    }

    #[test]
    fn the_real_answer_is_not_looked_at() {
        let body = HINT.repeat(20);
        let answer = [b"HTTP/1.1 200 OK\r\n\r\n", body.as_slice()].concat();

        assert!(!verdict(&answer, 11));
    }

    #[test]
    fn a_next_request_counts_anew() {
        let mut seen = InformationalResponses::new();
        assert!(!seen.are_too_many(&HINT.repeat(8)));
        assert!(!seen.are_too_many(b"HTTP/1.1 200 OK\r\n\r\n"));

        seen = InformationalResponses::new();

        assert!(!seen.are_too_many(&HINT.repeat(8)));
        assert!(seen.are_too_many(HINT));
    }

    #[test]
    fn a_header_that_looks_like_a_status_line_is_none() {
        let hint = b"HTTP/1.1 103 Early Hints\r\nx: y\r\nHTTP/1.1 100 no\r\n\r\n";

        assert!(!verdict(&[hint.repeat(8).as_slice(), b"HTTP/1.1 200 OK\r\n\r\n"].concat(), 9));
        assert!(verdict(&hint.repeat(9), 9));
    }

    proptest! {
        /// How bytes are cut into pieces on their way decides nothing.
        #[test]
        fn the_verdict_is_that_of_the_bytes_and_not_of_their_pieces(
            hints in 0_usize..12, body in "[ -~\r\n]{0,60}", cuts in prop::collection::vec(1_usize..50, 1..20),
        ) {
            let bytes = [HINT.repeat(hints), format!("HTTP/1.1 200 OK\r\n\r\n{body}").into_bytes()].concat();
            let mut seen = InformationalResponses::new();
            let (mut rest, mut were_too_many) = (bytes.as_slice(), false);
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                were_too_many |= seen.are_too_many(piece);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }

            prop_assert_eq!(were_too_many, hints > usize::from(INFORMATIONAL_MAX));
            prop_assert_eq!(verdict(&bytes, bytes.len()), were_too_many);
        }

        #[test]
        fn no_bytes_make_it_panic(pieces: Vec<Vec<u8>>) {
            let mut seen = InformationalResponses::new();
            for piece in pieces {
                let _too_many = seen.are_too_many(&piece);
            }
        }
    }
}
