//! The egress proxy against real clients and origins.
