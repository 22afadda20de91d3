//! The protocols that carry no placeholder: one table, whether somebody comes with a port, an address or a variable's name.
//!
//! PostgreSQL is none of them, since egress speaks its login (`database/`). A protocol that is not here may carry none either; of
//! that nobody is told.

/// A protocol into which no value is put.
#[derive(Debug, PartialEq, Eq)]
pub struct Uncarried {
    /// As people call it.
    pub name: &'static str,
    /// Where its servers listen.
    ports: &'static [u16],
    /// How its addresses begin.
    schemes: &'static [&'static str],
    /// How the names of variables begin that are about it.
    variables: &'static [&'static str],
    access: Access,
}

/// What becomes of a connection to one of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// None is opened: mail and shells are no agent's.
    Refused,
    /// It is tunnelled, and a placeholder arrives as it is.
    Untouched,
}

const TABLE: &[Uncarried] = &[
    row("AMQP", &[5671, 5672], &["amqp", "amqps"], &["AMQP_", "RABBITMQ_"]),
    row("Cassandra", &[9042], &["cassandra"], &["CASSANDRA_"]),
    row("FTP", &[21, 990], &["ftp", "ftps"], &["FTP_", "FTPS_"]),
    row("IMAP", &[143, 993], &["imap", "imaps"], &["IMAP_"]),
    row("JDBC", &[], &["jdbc"], &["JDBC_"]),
    row("Kafka", &[9092], &["kafka"], &["KAFKA_"]),
    row("LDAP", &[389, 636], &["ldap", "ldaps"], &["LDAP_"]),
    row("MongoDB", &[27017], &["mongodb"], &["MONGO_", "MONGODB_"]),
    row("MQTT", &[1883, 8883], &["mqtt", "mqtts"], &["MQTT_"]),
    row("MySQL", &[3306], &["mariadb", "mysql", "mysql2"], &["MARIADB_", "MYSQL_"]),
    row("NATS", &[4222], &["nats"], &["NATS_"]),
    row("Oracle", &[1521], &["oracle"], &["ORACLE_"]),
    row("POP3", &[110, 995], &["pop3", "pop3s"], &["POP3_"]),
    row("Redis", &[6379, 6380], &["redis", "rediss"], &["REDIS_"]),
    row("SQL Server", &[1433], &["mssql", "sqlserver"], &["MSSQL_"]),
    refused("SMTP", &[25, 465, 587], &["smtp", "smtps"], &["EMAIL_HOST_", "MAIL_", "SMTP_"]),
    refused("SSH", &[22], &["sftp", "ssh"], &["SFTP_", "SSH_"]),
];

impl Uncarried {
    /// The one whose servers listen at `port`.
    pub(crate) fn at(port: u16) -> Option<&'static Self> {
        TABLE.iter().find(|one| one.ports.contains(&port))
    }

    /// The one whose addresses begin with `scheme`, in any capitals: `redis`, `mysql+pymysql`, `jdbc:mysql`.
    pub fn of_scheme(scheme: &str) -> Option<&'static Self> {
        let first = scheme.split(['+', ':']).next().unwrap_or_default().to_ascii_lowercase();
        TABLE.iter().find(|one| one.schemes.contains(&first.as_str()))
    }

    /// The one that a variable of this name is about, in any capitals: `REDIS_URL`.
    pub fn of_variable(name: &str) -> Option<&'static Self> {
        let name = name.to_ascii_uppercase();
        TABLE.iter().find(|one| one.variables.iter().any(|begin| name.starts_with(begin)))
    }
}

/// Whether no connection is opened to `port`.
pub(crate) fn is_refused(port: u16) -> bool {
    Uncarried::at(port).is_some_and(|one| one.access == Access::Refused)
}

/// Why no value is ever carried to a port, as a fragment of a sentence; nothing where one may be.
pub fn never_carried(port: u16) -> Option<String> {
    let Uncarried { name, access, .. } = Uncarried::at(port)?;
    Some(match access {
        Access::Refused => {
            format!("port {port} is for mail or shells, and refused (port_refused)")
        }
        Access::Untouched => {
            format!("port {port} is {name}'s, which the proxy puts no value into")
        }
    })
}

const fn row(
    name: &'static str,
    ports: &'static [u16],
    schemes: &'static [&'static str],
    variables: &'static [&'static str],
) -> Uncarried {
    Uncarried { name, ports, schemes, variables, access: Access::Untouched }
}

const fn refused(
    name: &'static str,
    ports: &'static [u16],
    schemes: &'static [&'static str],
    variables: &'static [&'static str],
) -> Uncarried {
    Uncarried { access: Access::Refused, ..row(name, ports, schemes, variables) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_protocol_is_the_same_by_its_port_its_addresses_and_its_variables() {
        for (port, scheme, variable, name) in [
            (21, "ftp", "FTP_PASSWORD", "FTP"),
            (22, "ssh", "SSH_PASSWORD", "SSH"),
            (587, "smtps", "EMAIL_HOST_PASSWORD", "SMTP"),
            (3306, "mysql+pymysql", "MYSQL_PASSWORD", "MySQL"),
            (4222, "nats", "NATS_URL", "NATS"),
            (6379, "REDISS", "redis_url", "Redis"),
            (9042, "cassandra", "CASSANDRA_PASSWORD", "Cassandra"),
            (9092, "kafka", "KAFKA_PASSWORD", "Kafka"),
            (27017, "mongodb+srv", "MONGO_URI", "MongoDB"),
        ] {
            let found = [
                Uncarried::at(port),
                Uncarried::of_scheme(scheme),
                Uncarried::of_variable(variable),
            ];
            assert_eq!(found.map(|one| one.map(|one| one.name)), [Some(name); 3], "{name}");
            assert!(never_carried(port).is_some(), "{name}");
        }
        assert_eq!(Uncarried::of_scheme("jdbc:mysql").map(|one| one.name), Some("JDBC"));
        for port in [80, 443, 5432, 8443] {
            assert_eq!((Uncarried::at(port), is_refused(port)), (None, false), "{port}");
        }
        for scheme in ["https", "postgres", "postgresql+asyncpg", ""] {
            assert_eq!(Uncarried::of_scheme(scheme), None, "{scheme}");
        }
    }

    #[test]
    fn mail_and_shells_are_refused_and_nothing_else() {
        let refused: Vec<u16> = (0..=u16::MAX).filter(|port| is_refused(*port)).collect();
        assert_eq!(refused, [22, 25, 465, 587]);
    }

    #[test]
    fn nothing_is_said_of_two_protocols() {
        let mut seen = BTreeSet::new();
        for one in TABLE {
            let ports = one.ports.iter().map(ToString::to_string);
            let words = one.schemes.iter().chain(one.variables).map(|word| (*word).to_owned());
            for mark in ports.chain(words).chain([one.name.to_owned()]) {
                assert!(seen.insert(mark.clone()), "{mark}");
            }
        }
    }
}
