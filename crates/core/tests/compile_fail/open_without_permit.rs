use keyless_core::{SecretPath, SecretValue, Binding};

fn value() -> SecretValue {
    let path = SecretPath::parse("team/github/token").unwrap();
    SecretValue::new(path, b"not for your eyes".to_vec(), Binding::None).ok().unwrap()
}

fn main() {
    value().open_with_permit();
}
