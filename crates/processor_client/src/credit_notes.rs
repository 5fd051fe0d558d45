//! Credit notes: read and listed. Operators issue them at the processor.

use super::error::ProcessorError;
use super::form::FormParameters;
use super::listing::ListFilter;
use super::objects::{CreditNote, CreditNoteLine, ListPage};
use super::transport::ProcessorClient;

impl ProcessorClient {
    /// Reads a credit note with its first lines.
    pub async fn retrieve_credit_note(&self, id: &str) -> Result<CreditNote, ProcessorError> {
        self.get(&["credit_notes", id], FormParameters::new()).await
    }

    /// Lists credit notes, also voided ones, newest first; filters: customer, invoice, created.
    /// Each carries the first page of its lines.
    pub async fn list_credit_notes(
        &self,
        listing: &ListFilter<'_>,
    ) -> Result<ListPage<CreditNote>, ProcessorError> {
        self.get(&["credit_notes"], listing.form()).await
    }

    /// Lists the lines of a credit note that come after this one.
    pub async fn list_credit_note_lines(
        &self,
        id: &str,
        after: &str,
    ) -> Result<ListPage<CreditNoteLine>, ProcessorError> {
        let listing = ListFilter { after: Some(after), ..ListFilter::default() };
        self.get(&["credit_notes", id, "lines"], listing.form()).await
    }
}
