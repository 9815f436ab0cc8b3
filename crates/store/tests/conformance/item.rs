//! Items in databases: every reader on each database that can be read, the writer on both that can be written.

mod damage;
mod pooled;
mod reading;
mod source;
mod statement;
mod values;
mod writing;
mod writing_types;

/// Declares tests for the three databases that can be read; each is an `async fn name(source: Source)`.
macro_rules! on_all {
    ($($name:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::item::source::Source::sqlite().await).await })+
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(source) = $crate::item::source::Source::postgres().await { super::$name(source).await }
            })+
        }
        mod on_mysql {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(source) = $crate::item::source::Source::mysql().await { super::$name(source).await }
            })+
        }
    };
}
pub(crate) use on_all;
