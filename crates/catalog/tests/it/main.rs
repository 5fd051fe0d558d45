//! The built-in catalogue, checked as a whole against what the specification lists, and what
//! becomes of an operator's files and documents.

#[cfg(test)]
mod body_rules;
#[cfg(test)]
mod credentials;
#[cfg(test)]
mod dataset_files;
#[cfg(test)]
mod datasets;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod extra;
#[cfg(test)]
mod file_problems;
#[cfg(test)]
mod matching;
#[cfg(test)]
mod platform_file;
#[cfg(test)]
mod platforms;
#[cfg(test)]
mod routes;
#[cfg(test)]
mod schemas;
