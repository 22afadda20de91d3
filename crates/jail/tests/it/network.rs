use crate::scene::{Scene, users};

/// Prints what each connection was answered, or the error's name.
const CLIENT: &str = r"
import socket, sys
def tcp(address, port):
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with socket.socket(family) as s:
        s.settimeout(20)
        try:
            s.connect((address, port))
            return s.makefile().readline().strip()
        except OSError as error:
            return type(error).__name__
def udp(address, port):
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(20)
        try:
            s.connect((address, port))
            s.send(b'query')
            return s.recv(100).decode()
        except OSError as error:
            return type(error).__name__
for line in sys.argv[1:]:
    kind, address, port = line.split()
    print(line, '->', dict(tcp=tcp, udp=udp)[kind](address, int(port)))
";

fn check(table: &[(&str, &str)]) {
    for user in users() {
        let mut command = vec!["/usr/bin/python3", "-c", CLIENT];
        command.extend(table.iter().map(|(line, _)| *line));
        let text = Scene::of(user, &command).play().text();
        let expected: Vec<_> =
            table.iter().map(|(line, answer)| format!("{line} -> {answer}")).collect();
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{user:?}");
    }
}

#[test]
fn every_connection_arrives_with_the_destination_it_wanted() {
    check(&[
        ("tcp 93.184.216.34 443", "tcp 93.184.216.34:443"),
        ("tcp 127.1.0.1 80", "tcp 127.1.0.1:80"),
        ("tcp 127.254.255.254 9418", "tcp 127.254.255.254:9418"),
        ("tcp 169.254.169.254 80", "tcp 169.254.169.254:80"),
        ("tcp 10.0.0.1 22", "tcp 10.0.0.1:22"),
        ("tcp 192.0.2.7 65535", "tcp 192.0.2.7:65535"),
        ("tcp 2001:db8::1 443", "tcp [2001:db8::1]:443"),
        ("tcp ::ffff:192.0.2.1 443", "tcp 192.0.2.1:443"),
    ]);
}

#[test]
fn names_are_asked_of_the_callers_sockets_whatever_the_server() {
    check(&[
        ("udp 127.0.0.1 53", "query"),
        ("udp 127.0.0.53 53", "query"),
        ("udp 8.8.8.8 53", "query"),
        ("udp 2001:4860:4860::8888 53", "query"),
        ("tcp 9.9.9.9 53", "dns 9.9.9.9:53"),
        ("tcp ::1 53", "dns [::1]:53"),
    ]);
}

#[test]
fn other_datagrams_and_closed_ports_are_refused_at_once() {
    check(&[
        ("udp 8.8.8.8 443", "ConnectionRefusedError"),
        ("udp 192.0.2.1 123", "ConnectionRefusedError"),
        ("udp 2001:db8::1 443", "ConnectionRefusedError"),
        ("tcp 127.0.0.1 9", "ConnectionRefusedError"),
        ("tcp ::1 9", "ConnectionRefusedError"),
    ]);
}

#[test]
fn servers_of_the_commands_own_work() {
    let script = r"
import socket
for address in '0.0.0.0', '127.0.0.1', '::1', '::':
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    server = socket.socket(family); server.bind((address, 0)); server.listen()
    client = socket.create_connection(server.getsockname()[:2])
    server.accept()[0].send(address.encode()); print(client.recv(99).decode())
";
    for user in users() {
        let text = Scene::of(user, &["/usr/bin/python3", "-c", script]).play().text();
        assert_eq!(text, "0.0.0.0\n127.0.0.1\n::1\n::\n");
    }
}

#[test]
fn there_is_one_interface() {
    let text = Scene::new(&["sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1"]).play().text();
    assert_eq!(text.trim(), "lo");
}
