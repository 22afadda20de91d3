//! KeePass databases, keyfiles and documents that anybody may have made: nothing panics, takes memory that a length
//! promises, or finds one entry in two ways.
#![no_main]

use keyless_vault::fuzzing::read_keepass;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| read_keepass(bytes));
