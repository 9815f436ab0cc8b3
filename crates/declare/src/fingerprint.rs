//! The fingerprint of a definition, which tells whether the job has changed.
//!
//! It is computed from the tree: comments, blanks, quotes, the order of keys, descriptions, the schedule and
//! notifications do not count. In `map` and `columns` the order counts, because it is that of the columns.

use crate::document::{Content, Node};
use sha2::{Digest, Sha256};

/// 64 hexadecimal digits.
pub(crate) fn fingerprint(root: &Node) -> String {
    let mut hash = Sha256::new();
    feed(&mut hash, root, Names::Known);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Keys that do not affect the work itself.
const UNCOUNTED: [&str; 3] = ["description", "schedule", "notify"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Our keys.
    Known,
    Free,
    /// The author's, and their order counts.
    Ordered,
}

impl Names {
    fn below(key: &str) -> Self {
        match key {
            "map" | "columns" => Self::Ordered,
            "parameters" | "on" | "env" | "conf" | "exit_codes" | "headers" | "validate" | "lookup"
            | "set" => Self::Free,
            _ => Self::Known,
        }
    }
}

/// Every part begins with its kind and length, so that different trees give different bytes.
fn feed(hash: &mut Sha256, node: &Node, names: Names) {
    let mut head = |kind: u8, length: usize| {
        hash.update([kind]);
        hash.update((length as u64).to_be_bytes());
    };
    match &node.content {
        Content::Null => head(b'n', 0),
        Content::Scalar(text) => {
            head(b's', text.len());
            hash.update(text);
        }
        Content::List(items) => {
            head(b'l', items.len());
            items.iter().for_each(|item| feed(hash, item, Names::Known));
        }
        Content::Map(entries) => {
            let mut entries: Vec<_> = entries.iter().map(|(key, value)| (key.name.as_str(), value)).collect();
            entries.retain(|(name, _)| names != Names::Known || !UNCOUNTED.contains(name));
            if names != Names::Ordered {
                entries.sort_by_key(|(name, _)| *name);
            }
            head(b'm', entries.len());
            for (name, value) in entries {
                hash.update((name.len() as u64).to_be_bytes());
                hash.update(name);
                let below = if names == Names::Known { Names::below(name) } else { Names::Known };
                feed(hash, value, below);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;
    use crate::source::Source;

    fn of(text: &str) -> String {
        fingerprint(&document::read(&Source::new("x", text), document::OF_JOB).0.unwrap())
    }

    #[test]
    fn what_means_nothing_does_not_count() {
        let plain = of("job: a\nsteps:\n  - name: b\n    chunk: 10\n");

        assert_eq!(plain.len(), 64);
        for same in [
            "# words\njob:   a\n\nsteps:\n- chunk: 10\n  name: b # more\n",
            "{ steps: [{ 'name': \"b\", chunk: 10 }], job: a }",
            "job: a\ndescription: what for\nschedule: { cron: '@daily' }\nsteps:\n  - name: b\n    chunk: 10\n    description: words\n",
        ] {
            assert_eq!(of(same), plain, "{same}");
        }
    }

    #[test]
    fn what_means_something_counts() {
        let plain = of("job: a\nsteps: [b, c]\nmap: { x: 1, y: 2 }\n");

        for other in [
            "job: A\nsteps: [b, c]\nmap: { x: 1, y: 2 }\n",
            "job: a\nsteps: [c, b]\nmap: { x: 1, y: 2 }\n",
            "job: a\nsteps: [bc]\nmap: { x: 1, y: 2 }\n",
            "job: a\nsteps: [b, [c]]\nmap: { x: 1, y: 2 }\n",
            "job: a\nsteps: [b, c]\nmap: { y: 2, x: 1 }\n",
            "job: a\nsteps: [b, c]\nmap: { x: 1, y: 2, description: 3 }\n",
            "job: a\nsteps: [b, c]\nmap: { x: 1, y: 2 }\nparameters: { description: 1 }\n",
            "job: a\nsteps: [b, c]\nmap: { x: 1, y: 2 }\nheaders: { description: 1 }\n",
            "job: a\nsteps: [b, c]\nmap: { x: 1, y: 2 }\ncolumns: { description: 1 }\n",
            "job: a\nsteps: [b, c]\nmap: { x: 1, y: 2 }\nparameters: {}\n",
            "job: a\nsteps: [b, c]\n",
        ] {
            assert_ne!(of(other), plain, "{other}");
        }
    }
}
