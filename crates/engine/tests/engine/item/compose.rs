//! Processors made of others, or of closures.

use tidemill_domain::item::{ErrorKind, ItemError, Phase};
use tidemill_engine::item::{
    AsyncProcessor, BoxProcessor, ClassifierProcessor, ProcessorExt, ValidatingProcessor,
};
use tidemill_engine::job::component::ItemProcessor;

type Processed<O> = Result<Option<O>, ItemError>;

async fn outcome<O>(
    processor: &mut impl ItemProcessor<i64, Output = O>,
    item: i64,
) -> Result<Option<O>, String> {
    processor.process(&item).await.map_err(|error| format!("{}: {error}", error.kind_in(Phase::Process)))
}

fn halve(number: &i64) -> Processed<i64> {
    Ok((number % 2 == 0).then_some(number / 2))
}

#[tokio::test]
async fn processors_run_one_behind_the_other_and_what_one_drops_does_not_reach_the_next() {
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = calls.clone();
    let show = move |number: &i64| -> Processed<String> {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Some(number.to_string()))
    };
    let mut processor = halve.then(halve).then(show);

    assert_eq!(outcome(&mut processor, 12).await, Ok(Some("3".to_owned())));
    assert_eq!(outcome(&mut processor, 6).await, Ok(None));

    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_closure_picks_the_processor_of_an_item() {
    let negate = |number: &i64| -> Processed<i64> { Ok(Some(-number)) };
    let classes = || ClassifierProcessor::new(|number: &i64| number.signum()).on(-1, negate).on(1, halve);

    let mut strict = classes();
    let mut lenient = classes().otherwise(|_: &i64| -> Processed<i64> { Ok(Some(100)) });

    assert_eq!(outcome(&mut strict, -3).await, Ok(Some(3)));
    assert_eq!(outcome(&mut strict, 8).await, Ok(Some(4)));
    let error = "process: no processor was named for items of class 0".to_owned();
    assert_eq!(outcome(&mut strict, 0).await, Err(error));
    assert_eq!(outcome(&mut lenient, 0).await, Ok(Some(100)));
}

#[tokio::test]
async fn an_item_that_is_not_right_fails_or_is_dropped() {
    let check = |number: &i64| if *number > 0 { Ok(()) } else { Err(format!("{number} is not positive")) };
    let mut failing = ValidatingProcessor::new(check);
    let mut dropping = ValidatingProcessor::new(check).filter();

    assert_eq!(outcome(&mut failing, 7).await, Ok(Some(7)));
    assert_eq!(outcome(&mut failing, -7).await, Err("validation: -7 is not positive".to_owned()));
    assert_eq!(outcome(&mut dropping, 7).await, Ok(Some(7)));
    assert_eq!(outcome(&mut dropping, -7).await, Ok(None));
}

#[tokio::test]
async fn a_processor_may_wait_and_its_type_may_be_forgotten() {
    let waiting = AsyncProcessor(|number: &i64| {
        let number = *number;
        async move {
            tokio::task::yield_now().await;
            if number == 0 { Err(ItemError::new(ErrorKind::TRANSIENT, "busy")) } else { Ok(Some(number + 1)) }
        }
    });
    let mut processor = BoxProcessor::new(waiting);

    assert_eq!(outcome(&mut processor, 1).await, Ok(Some(2)));
    assert_eq!(outcome(&mut processor, 0).await, Err("transient: busy".to_owned()));
}
