//! The value of a secret around which an address stands in its variable: who gives the whole address means the password in it.
//!
//! The same at every door by which a value comes, so that none of them stores an address where its password belongs.

use keyless_core::{Code, Error, SafeText};
use keyless_vault::EnvForm;
use percent_encoding::percent_decode_str;
use zeroize::Zeroizing;

/// The value as it is kept: the password alone, where the whole address that `form` is was given.
///
/// [`Code::ValueRefused`] for another address.
pub fn password_alone(
    form: Option<&EnvForm>,
    value: Zeroizing<Vec<u8>>,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let is_address = |text: &&str| text.contains("://");
    let form = form.filter(|form| holds_password(form));
    let (Some(form), Some(text)) = (form, str::from_utf8(&value).ok().filter(is_address)) else {
        return Ok(value);
    };
    password_in(form, text).ok_or_else(|| {
        let words = "another address than the one that stands around this secret's value; give the password alone";
        Error::with(Code::ValueRefused, SafeText::words(words))
    })
}

/// Whether the value's place is that of a password: before the `@` of an address. In a connection string or a query it is
/// written as it is, and may be an address itself.
fn holds_password(form: &EnvForm) -> bool {
    let ends = ['/', '?', '#'];
    let (before, behind) = form.sides();
    let is_login = before.rsplit_once("://").is_some_and(|(_, login)| !login.contains(ends));
    is_login && behind.split(ends).next().is_some_and(|rest| rest.contains('@'))
}

/// The password of an address, as it is sent: without its percent signs.
fn password_in(form: &EnvForm, address: &str) -> Option<Zeroizing<Vec<u8>>> {
    let (before, behind) = form.sides();
    let written = address.strip_prefix(before)?.strip_suffix(behind)?;
    Some(Zeroizing::new(percent_decode_str(written).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_whole_address_the_password_is_taken() {
        let taken = |form: &str, value: &str| {
            let form = EnvForm::parse(form).unwrap();
            let value = Zeroizing::new(value.as_bytes().to_vec());
            let taken = password_alone(Some(&form), value).map_err(|error| error.code())?;
            Ok(String::from_utf8(taken.to_vec()).unwrap())
        };
        let shop = "postgres://app:{}@db.example.com/shop";
        let is = |text: &str| Ok(text.to_owned());
        assert_eq!(taken(shop, "postgres://app:a%2Fb@c@db.example.com/shop"), is("a/b@c"));
        assert_eq!(taken(shop, "a%2Fb"), is("a%2Fb"), "alone it is as it was given");
        for other in ["postgres://app:ab@db2.example.com/shop", "postgres://app:ab@db.example.com/"]
        {
            assert_eq!(taken(shop, other), Err(Code::ValueRefused), "{other}");
        }
        // Addresses that setup proposes for nothing have forms by hand.
        assert_eq!(taken("redis://:{}@localhost", "redis://:ab@localhost"), is("ab"));
        // What is no address is a form for a value that may be one.
        assert_eq!(taken("hook={}", "https://hooks.test/x"), is("https://hooks.test/x"));
        // Nor is a place that is no password's.
        let proxied = "https://proxy.test/?to={}";
        assert_eq!(taken(proxied, "https://hooks.test/x"), is("https://hooks.test/x"));
        let blob = "AccountKey={};BlobEndpoint=https://a.test/";
        let whole = "AccountKey=a%41;BlobEndpoint=https://a.test/";
        assert_eq!(taken(blob, whole), is(whole));
    }
}
