//! What a command can and can't do in a jail, seen from inside, through `jail-probe`.
