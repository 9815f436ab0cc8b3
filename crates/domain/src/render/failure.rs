//! What can go wrong with a render. What is done about each failure is in `retry_rules.rs`.

use crate::code::Code;

crate::words! {
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Failure => code: Code {
        /// Our own rules refuse the data, the mapping or a name.
        Refused = "refused" => Code::BadRenderData,
        TemplateMissing = "template_missing" => Code::TemplateMissing,
        AssetMissing = "asset_missing" => Code::AssetMissing,
        /// The template has no such composition, layer or property, or cannot be read.
        TemplateNotFit = "template_not_fit" => Code::TemplateNotFit,
        Rejected = "rejected" => Code::RenderRejected,
        /// Another queue has a job of this name.
        NameTaken = "name_taken" => Code::RenderNameTaken,
        /// nexrender does not answer, or with a server error.
        NexrenderDown = "nexrender_down" => Code::NexrenderDown,
        Lost = "lost" => Code::RenderLost,
        NotPicked = "not_picked" => Code::RenderNotPicked,
        /// The node reports an error that may be temporary.
        RenderFailed = "render_failed" => Code::RenderFailed,
        TimedOut = "timed_out" => Code::RenderTimedOut,
        Stalled = "stalled" => Code::RenderStalled,
        RemoteCancelled = "remote_cancelled" => Code::RenderRemoteCancelled,
        /// The file is missing, damaged or does not match the profile.
        OutputInvalid = "output_invalid" => Code::OutputInvalid,
        /// The NAS is full, over its quota, read-only or broken: no render can be published.
        NasUnwritable = "nas_unwritable" => Code::NasUnwritable,
        NasFailed = "nas_failed" => Code::NasFailed,
        NasRefused = "nas_refused" => Code::NasRefused,
        /// An object store does not answer, or does not take the file, or the worker does not know it.
        TargetDown = "target_down" => Code::RenderTargetDown,
        OutputConflict = "output_conflict" => Code::OutputConflict,
        /// A person has rejected the file.
        NotApproved = "not_approved" => Code::RenderNotApproved,
        WorkerLost = "worker_lost" => Code::RenderWorkerLost,
        WrongSecret = "wrong_secret" => Code::NexrenderSecretRefused,
        NotNexrender = "not_nexrender" => Code::NotNexrender,
        /// nexrender is well, but refuses calls about this job, or answers what nobody understands.
        Unanswered = "unanswered" => Code::RenderUnanswered,
        PathNotMapped = "path_not_mapped" => Code::PathNotMapped,
        /// There is an empty folder in place of the NAS.
        NasNotMounted = "nas_not_mounted" => Code::NasNotMounted,
        ToolMissing = "tool_missing" => Code::RenderToolMissing,
        Unexpected = "unexpected" => Code::Unexpected,
    }
}

/// What a failure may be the fault of, besides the render.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    Farm,
    Storage,
}

impl Failure {
    /// The backend to check before it is blamed for what may be the fault of one render.
    pub const fn blames(self) -> Option<Backend> {
        match self {
            Self::WrongSecret | Self::NotNexrender => Some(Backend::Farm),
            Self::NasUnwritable => Some(Backend::Storage),
            _ => None,
        }
    }

    /// The failure if that backend passes its check: then only this render has it, and it counts.
    #[must_use]
    pub const fn of_one_render(self) -> Self {
        match self {
            Self::WrongSecret | Self::NotNexrender => Self::Unanswered,
            Self::NasUnwritable => Self::NasFailed,
            other => other,
        }
    }

    /// Whether a farm that only restarts, or a proxy before it, may answer like this for a moment.
    pub const fn may_be_a_blip(self) -> bool {
        matches!(self, Self::NexrenderDown | Self::WrongSecret | Self::NotNexrender)
    }
}

/// Longer messages are cut; some nodes send their whole log.
pub const MESSAGE_CHARS_MAX: usize = 4_000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// Decides what is done.
    pub failure: Failure,
    pub code: Code,
    pub message: String,
}

impl Trouble {
    pub fn new(failure: Failure, message: &str) -> Self {
        Self { failure, code: failure.code(), message: shortened(message) }
    }

    /// The same failure as the fault of its render alone, because the backend passes its check.
    #[must_use]
    pub fn of_one_render(self) -> Self {
        let failure = self.failure.of_one_render();
        if failure == self.failure {
            return self;
        }
        Self::new(failure, &format!("{}; others are served", self.message))
    }

    pub fn refused(code: Code, message: &str) -> Self {
        Self { failure: Failure::Refused, code, message: shortened(message) }
    }
}

/// Errors that no retry can fix, in lower case: texts of nexrender's core, its scripts and After Effects.
const TEMPLATE_NOT_FIT: [&str; 7] = [
    "couldn't find any layers by provided name",
    "couldn't find any compositions",
    "can't find a property sequence",
    "no comp was found with the given name",
    "file is damaged",
    "could not require module",
    "unknown job asset type",
];

/// How nodes name the errors of a NAS that takes no file, in lower case.
const NAS_UNWRITABLE: [&str; 4] = ["enospc", "edquot", "erofs", "eio"];

/// `uid` identifies files that the job itself wrote. An unknown text may be temporary and is retried.
pub fn classify(message: &str, uid: &str) -> Failure {
    let message = message.to_lowercase();
    if TEMPLATE_NOT_FIT.iter().any(|text| message.contains(text)) {
        return Failure::TemplateNotFit;
    }
    if message.split(|other: char| !other.is_ascii_alphanumeric()).any(|word| NAS_UNWRITABLE.contains(&word))
    {
        return Failure::NasUnwritable;
    }
    // A missing file of the node's own, with the uid in its path, may be temporary.
    match missing_file(&message) {
        Some(path) if !uid.is_empty() && path.contains(&uid.to_lowercase()) => Failure::RenderFailed,
        Some(path) if path.ends_with(".aep") || path.ends_with(".aepx") => Failure::TemplateMissing,
        Some(_) => Failure::AssetMissing,
        None => Failure::RenderFailed,
    }
}

/// The file in `ENOENT: no such file or directory, open '<file>'`.
fn missing_file(message: &str) -> Option<&str> {
    let (_, after) = message.split_once("enoent")?;
    let (_, path) = after.split_once("open '")?;
    Some(path.split_once('\'').map_or(path, |(path, _)| path))
}

fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn codes_are_distinct() {
        for (index, one) in Failure::ALL.iter().enumerate() {
            for other in &Failure::ALL[index + 1..] {
                assert_ne!(one.code(), other.code());
            }
        }
    }

    #[test]
    fn what_nexrender_says_is_understood() {
        let check = |message: &str, failure| assert_eq!(classify(message, "rq-7-2"), failure, "{message}");

        check(
            "Error: nexrender: Couldn't find any layers by provided name (Name 1) inside a composition: *\n\nError: \
             Couldn't find a result file: /w/rq-7-2/result.mp4",
            Failure::TemplateNotFit,
        );
        check("After Effects error: No comp was found with the given name.", Failure::TemplateNotFit);
        check("Could not require module: @nexrender/action-copy", Failure::TemplateNotFit);
        check("ENOENT: no such file or directory, open '/t/Main.AEP'", Failure::TemplateMissing);
        check("ENOENT: no such file or directory, open 'D:\\flags\\Korea.png'", Failure::AssetMissing);
        check("ENOENT: no such file or directory, open '//NAS/.staging/rq-7-2.mp4'", Failure::RenderFailed);
        for error in ["ENOSPC: no space left on device, write", r#"{"errno":-122,"code":"EDQUOT"}"#] {
            check(error, Failure::NasUnwritable);
        }
        check("EROFS: read-only file system, open '//NAS/.staging/rq-7-2.mp4'", Failure::NasUnwritable);
        check("could not find the layer of VEIO", Failure::RenderFailed);
        for passing in [
            "Error: Couldn't find a result file: /w/rq-7-2/result.mp4",
            "Error: No update from aerender for 60 seconds",
            "Maximum rendering time exceeded",
            "AESend failed",
            "Unable to acquire a licence",
            "something new",
            "",
        ] {
            check(passing, Failure::RenderFailed);
        }
    }

    #[test]
    fn what_is_the_fault_of_one_render_blames_no_backend_any_more() {
        for failure in Failure::ALL {
            let own = failure.of_one_render();
            assert_eq!(own.blames(), None, "{failure}");
            assert_eq!(own == failure, failure.blames().is_none(), "{failure}");
        }
        let trouble = Trouble::new(Failure::WrongSecret, "nexrender answers 403").of_one_render();
        assert_eq!((trouble.failure, trouble.code), (Failure::Unanswered, Code::RenderUnanswered));
        assert!(trouble.message.starts_with("nexrender answers 403"), "{}", trouble.message);
    }

    proptest! {
        #[test]
        fn any_text_has_a_class_and_a_bounded_message(message in "\\PC{0,60}(enoent)?\\PC{0,9}(open ')?\\PC{0,60}") {
            let _class = classify(&message, "rq-1-1");
            let long = message.repeat(200);
            let trouble = Trouble::new(Failure::RenderFailed, &long);
            prop_assert!(trouble.message.chars().count() <= MESSAGE_CHARS_MAX + 1);
        }
    }

    #[test]
    fn a_missing_project_is_a_missing_template() {
        use crate::render::failure::{Failure, classify};
        let missing = "Error: ENOENT: no such file or directory, open 'D:\\templates\\cyprus.aep'";
        assert_eq!(classify(missing, "rq-1-1"), Failure::TemplateMissing);
        assert_eq!(classify("Error: AESend failed", "rq-1-1"), Failure::RenderFailed);
    }
}
