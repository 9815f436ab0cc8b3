//! What a document shows: its commands, the files that they need, and what is said about them in comments.
//!
//! A comment on the line before a block says what is to be done with it; `docs/conventions.md` lists them. A comment that
//! nobody knows is refused, so that a misspelt one does not go unnoticed.

/// Something to be done with a document, in its order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// A file that is shown, and that later commands find under this name.
    File { name: String, text: String },
    /// Commands that have to end with this exit code.
    Run { line: usize, script: String, exit: i32 },
    /// A command that runs until the end of the document, in another terminal.
    Keep { line: usize, script: String },
    /// Commands that a test cannot run, and why.
    Leave { line: usize, script: String, reason: String },
}

/// A document as it is read.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Page {
    pub(super) parts: Vec<Part>,
    /// Its commands need PostgreSQL.
    pub(super) on_postgres: bool,
}

/// What the comment before a block says.
#[derive(Clone)]
enum Remark {
    File(String),
    Exit(i32),
    Keep,
    Leave(String),
}

/// A block between fences: its language, its first line and what is in it.
struct Block {
    language: String,
    line: usize,
    text: String,
}

impl Page {
    /// Reads a document; what cannot be understood is told with its line.
    pub(super) fn read(document: &str) -> Result<Self, String> {
        let lines: Vec<&str> = document.lines().collect();
        let mut page = Self { parts: Vec::new(), on_postgres: false };
        let mut remark: Option<(usize, Remark)> = None;
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            if line.trim_start().starts_with("```") {
                let block = block(&lines, at)?;
                at += block.text.lines().count() + 2;
                page.take(block, remark.take().map(|(_, remark)| remark))?;
                continue;
            }
            if let Some((place, _)) = &remark {
                return Err(format!("line {place}: no block follows this comment"));
            }
            if line.trim() == "<!-- sh" {
                let hidden: Vec<&str> =
                    lines.iter().skip(at + 1).take_while(|line| line.trim() != "-->").copied().collect();
                page.parts.push(Part::Run { line: at + 2, script: hidden.join("\n"), exit: 0 });
                at += hidden.len() + 2;
                continue;
            }
            if let Some(comment) = line.trim().strip_prefix("<!--") {
                let comment = comment.trim_end_matches("-->").trim();
                match comment {
                    "database: postgresql" => page.on_postgres = true,
                    comment => {
                        let known = understand(comment).ok_or(format!("line {}: {comment}?", at + 1))?;
                        remark = Some((at + 1, known));
                    }
                }
            }
            at += 1;
        }
        Ok(page)
    }

    fn take(&mut self, block: Block, remark: Option<Remark>) -> Result<(), String> {
        let Block { language, line, text } = block;
        let part = match (language.as_str(), remark) {
            (_, Some(Remark::File(name))) => Part::File { name, text },
            ("sh", None) => Part::Run { line, script: text, exit: 0 },
            ("sh", Some(Remark::Exit(exit))) => Part::Run { line, script: text, exit },
            ("sh", Some(Remark::Keep)) => Part::Keep { line, script: text },
            ("sh", Some(Remark::Leave(reason))) => Part::Leave { line, script: text, reason },
            ("bash" | "shell" | "console", _) => {
                return Err(format!("line {line}: commands stand in blocks of `sh`"));
            }
            (_, Some(_)) => return Err(format!("line {line}: a remark about commands, and no commands")),
            (_, None) => return Ok(()),
        };
        self.parts.push(part);
        Ok(())
    }
}

/// The block whose opening fence is on this line, without the indentation of the fence.
fn block(lines: &[&str], at: usize) -> Result<Block, String> {
    let opening = lines[at];
    let indent = opening.len() - opening.trim_start().len();
    let language = opening.trim_start().trim_start_matches('`').trim().to_owned();
    let inner = &lines[at + 1..];
    let end = inner.iter().position(|line| line.trim() == "```").ok_or(format!("line {}: no end", at + 1))?;
    let text =
        inner[..end].iter().map(|line| format!("{}\n", line.get(indent..).unwrap_or(line.trim_start())));
    Ok(Block { language, line: at + 2, text: text.collect() })
}

fn understand(comment: &str) -> Option<Remark> {
    if comment == "keeps running" {
        return Some(Remark::Keep);
    }
    let (word, rest) = comment.split_once(": ")?;
    match word {
        "file" => Some(Remark::File(rest.to_owned())),
        // A reason is more than a word.
        "not run" if rest.split_whitespace().count() >= 3 => Some(Remark::Leave(rest.to_owned())),
        "exit code" => Some(Remark::Exit(rest.split(',').next()?.trim().parse().ok()?)),
        _ => None,
    }
}

#[test]
fn a_page_is_read_with_all_that_is_said_about_its_blocks() {
    let page = "<!-- database: postgresql -->\n# A\n\n<!-- file: a.json -->\n```json\n{}\n```\n```sh\na\nb\n```\n\
                <!-- exit code: 5, as it is complete -->\n```sh\nc\n```\n<!-- sh\nhidden\n-->\n\
                1. Indented:\n\n   <!-- not run: needs a broker of yours -->\n   ```sh\n   d\n   ```\n\
                <!-- keeps running -->\n```sh\ne\n```\n```text\nno command\n```\n";

    let page = Page::read(page).unwrap();

    let run = |line, script: &str, exit| Part::Run { line, script: script.to_owned(), exit };
    assert!(page.on_postgres);
    assert_eq!(
        page.parts,
        [
            Part::File { name: "a.json".into(), text: "{}\n".into() },
            run(9, "a\nb\n", 0),
            run(14, "c\n", 5),
            run(17, "hidden", 0),
            Part::Leave { line: 23, script: "d\n".into(), reason: "needs a broker of yours".into() },
            Part::Keep { line: 27, script: "e\n".into() },
        ]
    );
}

#[test]
fn a_remark_that_is_misspelt_or_belongs_to_nothing_is_refused() {
    for wrong in [
        "<!-- notrun: needs a broker of yours -->\n```sh\na\n```\n",
        "<!-- not run: because -->\n```sh\na\n```\n",
        "<!-- exit code: many -->\n```sh\na\n```\n",
        "<!-- keeps running -->\n\n```sh\na\n```\n",
        "<!-- keeps running -->\n```text\na\n```\n",
        "```bash\na\n```\n",
        "```sh\na\n",
    ] {
        assert!(Page::read(wrong).is_err(), "{wrong}");
    }
}
