//! What the terms of the product promise to those who use them, checked over many values.

#[cfg(test)]
mod accounts;
#[cfg(test)]
mod cursors;
#[cfg(test)]
mod dates;
#[cfg(test)]
mod ids;
#[cfg(test)]
mod money;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod texts;
#[cfg(test)]
mod words;
