//! Assert steps: queries, and what their results have to be.

use super::{Reader, Table, all, tables};
use crate::document::{Content, Node};
use crate::model::{AssertFile, Severity};

tables! {
    ASSERT = "assert" ["query" "expect" "severity" "set" "connection"]
        "assert: { query: \"select count(*) from orders\", expect: \"value > 0\" }";
}

impl Reader<'_> {
    /// One assertion, or a list.
    pub(super) fn assertions(&mut self, node: &Node) -> Option<Vec<AssertFile>> {
        let items = match &node.content {
            Content::List(items) if !items.is_empty() => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        all(items.iter().map(|item| self.assertion(item)))
    }

    fn assertion(&mut self, node: &Node) -> Option<AssertFile> {
        let fields = self.table(node, "assert", ASSERT)?;
        let query = self.required_text(&fields, "query");
        let expect = self.required_text(&fields, "expect");
        let words = Severity::ALL.map(|severity| (severity.as_str(), severity));
        let severity =
            fields.get("severity").map_or(Some(Severity::Fail), |node| self.word(node, "severity", &words));
        let set = self.text_of(&fields, "set");
        let connection = self.text_of(&fields, "connection");
        Some(AssertFile { query: query?, expect: expect?, severity: severity?, set, connection })
    }
}
