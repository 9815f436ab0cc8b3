//! Requests run in a runtime of their own, so that readers and writers can wait for them wherever they are called.

use object_store::Error;
use std::io;
use std::sync::{LazyLock, mpsc};
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::task::block_in_place;

/// Longer texts of errors are cut off.
const TEXT_CHARS: usize = 300;

/// Servers that give the credentials of an instance. They are asked if no variable has any.
const METADATA: [&str; 3] = ["169.254.169.254", "169.254.170.2", "metadata.google.internal"];

const NO_CREDENTIALS: &str = "there are no credentials, and this machine has no role; set AWS_ACCESS_KEY_ID and \
    AWS_SECRET_ACCESS_KEY, GOOGLE_SERVICE_ACCOUNT, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY";

const OTHER_REGION: &str = "; set AWS_REGION to the region of the bucket";

static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(2).thread_name("objects").enable_all().build()
});

pub(crate) fn wait<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> io::Result<T> {
    let runtime = RUNTIME.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    let (done, result) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // The caller waits until the end.
        let _unheard = done.send(work.await);
    });
    let wait = || result.recv().map_err(|_| io::Error::other("the request was given up"));
    let done = match Handle::try_current().map(|current| current.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(wait),
        _ => wait(),
    };
    done?.map_err(failed)
}

pub(crate) fn failed(error: Error) -> io::Error {
    let kind = match &error {
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        Error::Precondition { .. } => {
            return io::Error::other("the object was replaced while it was read");
        }
        Error::InvalidPath { source } => {
            let text = format!("{source}; rename the object, or name a folder that does not have it");
            return io::Error::other(text);
        }
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, shortened(&error.to_string()))
}

/// Without the body of an answer: it can be long, and that of S3 has the session token if that has expired.
fn shortened(text: &str) -> String {
    if METADATA.iter().any(|server| text.contains(server)) {
        return NO_CREDENTIALS.to_owned();
    }
    let answer = ["status code: ", "error response: "].iter().find_map(|before| text.split_once(before));
    let Some((_, answer)) = answer else { return text.chars().take(TEXT_CHARS).collect() };
    let status = answer.split_once(':').map_or(answer, |(status, _)| status);
    let is_status = status.starts_with(|first: char| first.is_ascii_digit());
    let status = if is_status { status.trim() } else { "an error" };
    let code = answer.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let shown: String = match code {
        Some((code, _)) => format!("{status} ({code})"),
        None => status.to_owned(),
    };
    let region = if is_of_region(status, &shown) { OTHER_REGION } else { "" };
    format!("the server answered with {}{region}", shown.chars().take(TEXT_CHARS).collect::<String>())
}

/// S3 redirects to the region of the bucket, or refuses a signature for another one.
fn is_of_region(status: &str, shown: &str) -> bool {
    status.starts_with("301") || status.starts_with("307") || shown.contains("AuthorizationHeaderMalformed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_status_and_the_code_of_an_answer_only() {
        let request = "Generic S3 error: Error performing GET http://s3/lake/a in 2ms - Server returned";
        let expired = "<Error><Code>ExpiredToken</Code><Token-0>secret</Token-0></Error>";
        let check = |text: String, expected: &str| assert_eq!(shortened(&text), expected);

        check(
            format!("{request} non-2xx status code: 400 Bad Request: {expired}"),
            "the server answered with 400 Bad Request (ExpiredToken)",
        );
        check(
            format!("{request} error response: {expired}"),
            "the server answered with an error (ExpiredToken)",
        );
        check(
            format!("{request} non-2xx status code: 404 Not Found: "),
            "the server answered with 404 Not Found",
        );
        check(
            format!("{request} non-2xx status code: 301 Moved Permanently: "),
            "the server answered with 301 Moved Permanently; set AWS_REGION to the region of the bucket",
        );
        check(
            "Error performing PUT http://169.254.169.254/latest/api/token in 3m".to_owned(),
            NO_CREDENTIALS,
        );
        check("x".repeat(1000), &"x".repeat(TEXT_CHARS));
    }
}
