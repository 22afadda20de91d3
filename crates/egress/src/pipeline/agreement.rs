//! One authority: what the connection was opened for, the target's, `:authority` and every `Host`
//! must be the same in canonical form, for each request (a browser may coalesce connections).
//! Source: reference/egress.md (c) 3; (e) 40 to 49.

use http::{Request, Version, header};
use keyless_core::{Authority, AuthorityError, Code, Error, Host, SafeText, Scheme};

use super::Bound;

/// What all parts of a request agree on.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
}

/// Finds what the request and its connection agree on.
pub(super) fn agree<B>(request: &Request<B>, bound: &Bound) -> Result<Agreed, Error> {
    let scheme = match bound {
        Bound::To { scheme, .. } => *scheme,
        Bound::PerRequest => scheme_of(request)?,
    };
    if let Bound::To { authority, .. } = bound
        && names_as_is(request, authority, scheme)
    {
        return Ok(Agreed { scheme, authority: authority.clone() });
    }
    let mut named = Vec::new();
    if let Some(target) = request.uri().authority() {
        named.push(parse(target.as_str(), scheme)?);
    }
    for host in request.headers().get_all(header::HOST) {
        let text = host.to_str().map_err(|_| Error::new(Code::BadRequest))?;
        named.push(parse(text, scheme)?);
    }
    if let Some(said) = request.uri().scheme_str()
        && said != word(scheme)
    {
        let words = SafeText::words("the request says that it is for ").as_they_wrote(said);
        let words = words.and(", and its connection is for ").and(word(scheme));
        return Err(Error::with(Code::BadRequest, words));
    }
    let expected = match (bound, named.first()) {
        // HTTP/1.0 has no need of a field `Host` where the connection says it.
        (Bound::To { authority, .. }, None) if request.version() == Version::HTTP_10 => {
            authority.clone()
        }
        (_, None) => return Err(Error::with(Code::BadRequest, "the request names no host".into())),
        (Bound::To { authority, .. }, _) | (Bound::PerRequest, Some(authority)) => {
            authority.clone()
        }
    };
    match named.into_iter().find(|authority| *authority != expected) {
        Some(other) => Err(Error::with(
            Code::AuthorityMismatch,
            SafeText::words("the request is for ")
                .and(other)
                .and(", its connection for ")
                .and(expected),
        )),
        None => Ok(Agreed { scheme, authority: expected }),
    }
}

/// Whether the request names the authority in one `Host` field, as canonical as it can be: nearly
/// every request, and nothing to parse.
fn names_as_is<B>(request: &Request<B>, authority: &Authority, scheme: Scheme) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (Host::Name(name), Some(host), None) = (&authority.host, hosts.next(), hosts.next()) else {
        return false;
    };
    request.uri().authority().is_none()
        && authority.port == scheme.default_port()
        && host.as_bytes() == name.as_str().as_bytes()
}

fn parse(text: &str, scheme: Scheme) -> Result<Authority, Error> {
    Authority::parse_for(text, scheme).map_err(|error: AuthorityError| {
        Error::with(Code::BadRequest, SafeText::words("the host can't be read: ").and(error))
    })
}

fn word(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    }
}

fn scheme_of<B>(request: &Request<B>) -> Result<Scheme, Error> {
    match request.uri().scheme_str() {
        Some("http") => Ok(Scheme::Http),
        Some("https") => Ok(Scheme::Https),
        Some(_) => {
            Err(Error::with(Code::BadRequest, "the scheme is neither http nor https".into()))
        }
        None => Err(Error::with(Code::BadRequest, "a proxy takes whole URLs only".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::Standing;

    fn check(bound: &Bound, target: &str, hosts: &[&str]) -> Result<String, Code> {
        let mut request = Request::builder().uri(target);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let agreed = agree(&request.body(()).unwrap(), bound);
        agreed.map(|agreed| agreed.authority.to_string()).map_err(|error| error.code())
    }

    fn to(authority: &str) -> Bound {
        let authority = Authority::parse(authority).unwrap();
        let standing = Standing::refused(Code::Internal.into());
        Bound::To { scheme: Scheme::Https, authority, standing }
    }

    #[test]
    fn every_spelling_of_the_same_is_the_same() {
        let bound = to("api.test:443");
        for (target, hosts) in [
            ("/", &["api.test"][..]),
            ("/", &["API.test.:443"]),
            ("https://api.test/", &[]),
            ("https://api.test:443/x", &["api.test"]),
        ] {
            assert_eq!(check(&bound, target, hosts), Ok("api.test:443".to_owned()), "{target}");
        }
    }

    #[test]
    fn one_other_name_anywhere_is_refused() {
        let bound = to("api.test:443");
        for (target, hosts) in [
            ("/", &["evil.test"][..]),
            ("/", &["api.test:8443"]),
            ("/", &["api.test", "evil.test"]),
            ("https://evil.test/", &["api.test"]),
            ("https://api.test/", &["evil.test"]),
        ] {
            assert_eq!(check(&bound, target, hosts), Err(Code::AuthorityMismatch), "{target}");
        }
        for (target, hosts) in [("/", &[][..]), ("/", &["a b"]), ("https://u@api.test/", &[])] {
            assert_eq!(check(&bound, target, hosts), Err(Code::BadRequest), "{target}");
        }
    }

    #[test]
    fn at_the_proxy_the_target_decides() {
        let open = Bound::PerRequest;
        assert_eq!(check(&open, "http://a.test/", &["a.test"]), Ok("a.test:80".to_owned()));
        let mismatch = check(&open, "http://a.test/", &["b.test"]);
        assert_eq!(mismatch, Err(Code::AuthorityMismatch));
        assert_eq!(check(&open, "/", &["a.test"]), Err(Code::BadRequest));
        assert_eq!(check(&open, "ftp://a.test/", &[]), Err(Code::BadRequest));
    }
}
