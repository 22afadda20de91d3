//! Lets the probe survive what the terminal sends to the whole foreground group, as a CLI would.
#![expect(unsafe_code, reason = "a signal handler")]

/// Takes SIGINT and SIGQUIT and does nothing; a handler, unlike "ignore", is not inherited by the command.
pub(crate) fn outlive_terminal_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the handler touches nothing.
        unsafe { libc::signal(signal, handler) };
    }
}
