//! `sdk_proxy`: calls a service's API with a credential that the agent never sees.
//!
//! A provider is a file of data (`providers/*.toml`, or an OpenAPI document of the operator's): where it is,
//! how a credential is put, what its operations are. AWS, whose requests are signed, has its protocols in
//! code and its services as data; PostgreSQL is no HTTP at all. A credential goes only where its own destinations, the grant or its
//! category say. Operations that answer with credentials are withheld.

mod aws;
mod call;
mod filling;
mod openapi;
mod pattern;
mod postgres;
mod provider;
mod providers;
mod request;
mod withholding;
mod xml;

pub use self::{
    call::{Answer, BoundTo, Http},
    postgres::Databases,
    providers::{ProviderFault, Providers},
    request::Call,
};
pub(crate) use self::{
    call::{Draft, Wanted, call},
    withholding::withhold,
};
