//! Which topic an event goes to: the one it names, or the one its type is routed to, with a prefix.

use std::borrow::Cow;
use tidemill_domain::outbox::event::check_topic;

/// Redirects events of a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// An exact type, or a prefix that ends with `*`.
    pub event_type: String,
    pub topic: String,
}

/// Where events go.
///
/// ```
/// # use tidemill_kafka::{Route, Topics};
/// let route = Route { event_type: "order.*".into(), topic: "orders.v2".into() };
/// let topics = Topics::new("shop.", vec![route]).unwrap();
/// assert_eq!(topics.of("order.paid", "orders", false), "shop.orders.v2");
/// assert_eq!(topics.of("refund.paid", "refunds", false), "shop.refunds");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topics {
    prefix: String,
    routes: Vec<Route>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} cannot be a topic, or the beginning of one")]
pub struct BadRoute(String);

impl Topics {
    pub fn new(prefix: impl Into<String>, routes: Vec<Route>) -> Result<Self, BadRoute> {
        let prefix = prefix.into();
        let topics = routes.iter().map(|route| format!("{prefix}{}", route.topic));
        // A valid letter appended to the prefix makes it a topic name.
        let bad =
            std::iter::once(format!("{prefix}x")).chain(topics).find(|topic| check_topic(topic).is_err());
        match bad {
            Some(bad) => Err(BadRoute(bad.chars().take(300).collect())),
            None => Ok(Self { prefix, routes }),
        }
    }

    /// The most specific route counts; a topic that an operator has set for this event wins over all routes.
    pub fn of<'a>(&'a self, event_type: &str, topic: &'a str, is_redirected: bool) -> Cow<'a, str> {
        let fitting = self.routes.iter().filter(|route| !is_redirected && route.fits(event_type));
        // An exact type is more specific than a prefix of the same length.
        let best = fitting.max_by_key(|route| (route.stem().len(), !route.is_open()));
        let topic = best.map_or(topic, |route| &route.topic);
        if self.prefix.is_empty() {
            Cow::Borrowed(topic)
        } else {
            Cow::Owned(format!("{}{topic}", self.prefix))
        }
    }
}

impl Route {
    fn is_open(&self) -> bool {
        self.event_type.ends_with('*')
    }

    fn stem(&self) -> &str {
        self.event_type.strip_suffix('*').unwrap_or(&self.event_type)
    }

    fn fits(&self, event_type: &str) -> bool {
        if self.is_open() { event_type.starts_with(self.stem()) } else { event_type == self.event_type }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(event_type: &str, topic: &str) -> Route {
        Route { event_type: event_type.into(), topic: topic.into() }
    }

    #[test]
    fn the_route_that_says_most_counts_in_whatever_order_they_stand() {
        let mut routes = vec![
            route("*", "rest"),
            route("order.*", "orders"),
            route("order.paid", "payments"),
            route("order.paid*", "more"),
        ];
        for _ in 0..routes.len() {
            routes.rotate_left(1);
            let topics = Topics::new("", routes.clone()).unwrap();

            assert_eq!(topics.of("order.paid", "x", false), "payments");
            assert_eq!(topics.of("order.paid.late", "x", false), "more");
            assert_eq!(topics.of("order.sent", "x", false), "orders");
            assert_eq!(topics.of("orders", "x", false), "rest");
        }
    }

    #[test]
    fn without_a_route_an_event_goes_where_it_says() {
        assert_eq!(Topics::default().of("order.paid", "orders", false), "orders");
        assert_eq!(
            Topics::new("", vec![route("a", "b")]).unwrap().of("order.paid", "orders", false),
            "orders"
        );
    }

    #[test]
    fn what_is_redirected_goes_there_behind_the_prefix_only() {
        let topics = Topics::new("p.", vec![route("*", "rest")]).unwrap();

        assert_eq!(topics.of("a", "b", false), "p.rest");
        assert_eq!(topics.of("a", "b", true), "p.b");
    }

    #[test]
    fn what_kafka_would_not_take_is_refused() {
        assert!(Topics::new("a b", Vec::new()).is_err());
        assert!(Topics::new("", vec![route("a", "")]).is_err());
        assert!(Topics::new("p.", vec![route("a", &"x".repeat(248))]).is_err());
        assert!(Topics::new("p.", vec![route("a", &"x".repeat(247))]).is_ok());
    }
}
