//! The scenery itself, seen by the clients that the product's tests will use: curl, git, pip, npm, hyper.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod clients;
mod recording;
