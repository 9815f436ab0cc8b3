//! What to do about a failure, in one sentence. The page of its code says more.

use crate::code::Code;

/// None for codes that no render fails with.
pub const fn remedy(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::BadRenderData => "correct the data of the render, then retry",
        Code::RenderDataTooLarge => "put images into files, and write their paths into the data",
        Code::FieldsNotMapped => "compare the data with the mapping, correct one of them, then retry",
        Code::BadFieldMapping => "correct the rows in the message, import the mapping again, then retry",
        Code::BadProfile => "correct the profile of the composition, import it again, then retry",
        Code::UnsafeComposition => {
            "rename the composition in the template, its profile, its mapping and the data"
        }
        Code::NotOnAllowList => "move the file into an allowed folder, or allow its folder on the worker",
        Code::BadPath => "write the whole path, without .., then retry",
        Code::PathNotMapped => "add the folder to render.paths; the worker then continues by itself",
        Code::BadBroadcastDate => "give the render a day such as 2026-11-15, then retry",
        Code::UnknownComposition => "correct the name, or import its profile and its mapping, then retry",
        Code::NexrenderDown => "check that nexrender runs and that the worker can reach it, then retry",
        Code::NexrenderSecretRefused => "set the secret of nexrender; the worker then continues by itself",
        Code::NotNexrender => "correct render.url; the worker then continues by itself",
        Code::RenderRejected => "compare the message with the version of nexrender, and report it as a bug",
        Code::TemplateMissing => {
            "put the project at the path in the message, or correct the profile, then retry"
        }
        Code::AssetMissing => "put the file at the path in the message, or correct the data, then retry",
        Code::TemplateNotFit => "correct the template or the mapping of the composition, then retry",
        Code::RenderFailed => "render the composition on the node by hand to see the error, then retry",
        Code::RenderTimedOut => "end After Effects on the node, or raise render.max_render_time, then retry",
        Code::RenderStalled => "restart the worker on the node, or raise render.stall_timeout, then retry",
        Code::RenderNotPicked => "start a render node that takes the tags of the job, then retry",
        Code::RenderLost => "let nexrender keep its database over restarts, then retry",
        Code::RenderRemoteCancelled => "retry the render if you still need it",
        Code::RenderWorkerLost => "read the log of the last workers to find why they end, then retry",
        Code::OutputInvalid => "compare the output module with the profile, or check the node, then retry",
        Code::NasFailed => "check the NAS, then retry: only publishing is repeated",
        Code::NasRefused => "let the worker write to the NAS, then retry: only publishing is repeated",
        Code::NasNotMounted => "mount the NAS; the worker then continues by itself",
        Code::NasUnwritable => "free space or make the NAS writable; the worker then continues by itself",
        Code::OutputConflict => "move the other file or object away, then retry",
        Code::RenderTargetDown => {
            "bring the store back, correct its credentials, or set render.targets on all workers; the render then continues by itself"
        }
        Code::RenderNotApproved => "correct the data of the render, or retry it",
        Code::RenderKeyMissing => "configure the key that the message names, then retry",
        Code::RenderDataSealed => "configure the key that encrypted the data, or order the render again",
        Code::RenderToolMissing => "install ffmpeg, or correct its path; the worker then continues by itself",
        Code::InspectionTimedOut => {
            "give the host fewer renders, or turn off decoding in the profile, then retry"
        }
        Code::RenderNameTaken => "give each database its own nexrender, then retry",
        Code::RenderUnanswered => "correct the proxy or the data according to the message, then retry",
        Code::DamagedRow => "correct the row that the message names, then retry",
        Code::Unexpected => "read the log of the worker, then retry",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Failure;

    #[test]
    fn every_failure_has_a_remedy_of_one_sentence() {
        for failure in Failure::ALL {
            assert!(remedy(failure.code()).is_some(), "{failure}");
        }
        for text in Code::ALL.iter().filter_map(|code| remedy(*code)) {
            assert!(text.len() <= 120 && !text.ends_with('.') && !text.contains(". "), "{text}");
        }
        assert_eq!(remedy(Code::PoolFull), None);
        assert!(remedy(Code::RenderTargetDown).is_some_and(|text| text.contains("credentials")));
        assert!(remedy(Code::OutputConflict).is_some_and(|text| text.contains("file or object")));
    }
}
