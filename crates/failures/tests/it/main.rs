//! What callers read when work fails.

#[cfg(test)]
mod conversions;
#[cfg(test)]
mod outcomes;
#[cfg(test)]
mod payments;
#[cfg(test)]
mod texts;
