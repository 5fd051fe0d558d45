//! The built-in catalogue, checked as a whole against what the specification lists.

#[cfg(test)]
mod datasets;
#[cfg(test)]
mod extra;
#[cfg(test)]
mod platforms;
#[cfg(test)]
mod routes;
