//! Answers that are lost: one job, whatever happens.

use crate::lossy::{Lossy, Lost};
use crate::site::{client, client_at, job, jobs_posted, nexrender, uid};
use tidemill_domain::render::Failure;
use tidemill_engine::render::Farm;

#[tokio::test]
async fn a_job_whose_answer_is_lost_is_found_and_not_posted_again() {
    let Some(nexrender) = nexrender(0) else { return };
    let lossy = Lossy::in_front_of(&nexrender.url(), Lost::Answer);
    let farm = client_at(&lossy.url, nexrender.secret());
    let document = job(&nexrender, uid(1), "", &nexrender.output().join("x.mp4"));

    let submitted = farm.submit(uid(1), &document).await.unwrap();

    assert_eq!((submitted.id.as_str(), lossy.lost()), ("rq-1-1", 1));
    assert_eq!(jobs_posted(&nexrender), 1);
}

#[tokio::test]
async fn a_job_that_may_not_have_arrived_is_not_posted_again() {
    let Some(nexrender) = nexrender(0) else { return };
    let lossy = Lossy::in_front_of(&nexrender.url(), Lost::Request);
    let farm = client_at(&lossy.url, nexrender.secret());
    let document = job(&nexrender, uid(2), "", &nexrender.output().join("x.mp4"));

    let trouble = farm.submit(uid(2), &document).await.unwrap_err();

    assert_eq!(trouble.failure, Failure::NexrenderDown);
    assert!(trouble.message.contains("rq-2-1 is not known"), "{}", trouble.message);
    assert_eq!((lossy.lost(), jobs_posted(&nexrender)), (1, 0));

    // Whoever comes back later looks, and may.
    client(&nexrender).submit(uid(2), &document).await.unwrap();
    assert_eq!(jobs_posted(&nexrender), 1);
}
