//! The grammars of a secret's rule, one text each: none panics, and what is taken can be written down
//! and is the same when it is read again. A request is judged without a panic whatever its path is.
#![no_main]

use std::{fmt::Display, str::FromStr};

use keyless_core::{
    Authority, Destination, EgressRule, Injection, OauthGrant, RequestFacts, RequestRule, Scheme,
    Sealing, Signer,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str)| {
    let (text, path) = texts;
    survives::<Destination>(text);
    survives::<Injection>(text);
    survives::<OauthGrant>(text);
    survives::<Sealing>(text);
    survives::<Signer>(text);
    if let Some(rule) = survives::<RequestRule>(text) {
        let to = Destination::parse("api.test").expect("a destination");
        let authority = Authority::parse("api.test:443").expect("an authority");
        let rule = EgressRule { allow: vec![rule], ..EgressRule::to(vec![to]) };
        let request = RequestFacts {
            methods: vec!["GET".to_owned()],
            path: path.to_owned(),
            ..RequestFacts::default()
        };
        let _ = rule.looks_into(&authority, &request);
        let words = rule.deciding_words(Scheme::Https, &authority, &request);
        assert!(words.starts_with("allow ") || words == "to api.test", "{words}");
    }
});

fn survives<T: FromStr + Display + PartialEq>(text: &str) -> Option<T> {
    let read = text.parse::<T>().ok()?;
    let again = read.to_string().parse::<T>().ok();
    assert!(again.as_ref() == Some(&read), "{text:?} was written as {read}");
    Some(read)
}
