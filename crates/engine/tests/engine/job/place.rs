//! Where an item came from, told when it fails after it was read.

use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::JobParameters;
use tidemill_engine::item::ItemsWriter;
use tidemill_engine::job::{ItemPlace, ItemReader, ItemStream, Job, Step};
use tidemill_engine::testing::JobBench;

/// Says of every second item where it came from, and fails to read the third one.
#[derive(Clone)]
struct Placed(u64);

impl ItemStream for Placed {}

impl ItemReader for Placed {
    type Item = u64;

    async fn read(&mut self) -> Result<Option<u64>, ItemError> {
        self.0 += 1;
        match self.0 {
            3 => Err(ItemError::new(ErrorKind::PARSE, "torn")),
            n => Ok((n <= 8).then_some(n)),
        }
    }

    fn place(&self) -> Option<ItemPlace> {
        self.0.is_multiple_of(2).then(|| ItemPlace { source: "file".into(), unit: "line", number: self.0 })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_fails_is_told_with_its_own_place_and_with_no_others() {
    for threads in [1, 3] {
        for (bad, place) in [(4, Some("(file line 4)")), (5, None), (8, Some("(file line 8)"))] {
            let bench = JobBench::new().await.unwrap();
            let step = Step::chunk("s", 5)
                .reader(Placed(0))
                .process(move |n: &u64| match *n == bad {
                    true => Err(ItemError::new(ErrorKind::PROCESS, "not this one")),
                    false => Ok(Some(*n)),
                })
                .writer(ItemsWriter::default())
                .skip([ErrorKind::PARSE], 1)
                .threads(threads);

            let run = bench.run(&Job::new("placed").step(step.build()), &JobParameters::new()).await.unwrap();

            let why = run.end.exit.description;
            assert!(why.contains("not this one"), "{why}");
            assert_eq!(place.is_some(), why.contains("line"), "{why}");
            assert!(place.is_none_or(|place| why.contains(place)), "{why}");
        }
    }
}
