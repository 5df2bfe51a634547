// Package store keeps what Bourn keeps in PostgreSQL: two databases, control and
// records, one file here per noun.
//
//	admin ──Prepare──▶ roles, databases, migrations      once, by who administers the server
//	bournd ──Open──▶ Store ──▶ bourn_control              its own work in control
//	                       ├─▶ Door(control) bourn_member ┐ a member's, with a session;
//	                       └─▶ Door(records) bourn_app    ┘ there is no other way to a member's rows
//
// # What it upholds
//
// Row security is enabled and forced on every table, and no role that logs in owns a table
// or bypasses it. A member's rows are reached through a [Door] alone: a transaction that
// acts as one session. A connection that goes back carries no identity.
//
// # What it does not
//
// It does not protect from who administers the server. Row estimates of EXPLAIN and
// the names of NOTIFY channels are open to whoever may send SQL.
//
// # Needs
//
// PostgreSQL, at least [cluster.Minimum]; a superuser's connection for [Prepare] only.
package store
