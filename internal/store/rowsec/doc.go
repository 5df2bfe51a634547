// Package rowsec looks after row security in the database records: it names the mistakes of a
// schema, and writes the migration that guards a table of one's own.
//
//	Lint   catalog ──▶ findings: code, object, what is wrong, its mend
//	Guard  a table's shape ──▶ SQL to run, SQL to take it back, what it cannot know
//
// # What it upholds
//
// Both only read, in one transaction each. Policies are judged by the expression that
// PostgreSQL has stored, not by their text, so an alias or another spelling hides nothing.
// Every name in SQL that is printed was quoted by the server.
//
// # What it does not
//
// Lint knows the mistakes that are in its table; its silence is no proof. It cannot tell
// what a function does that policies call, nor whether a row was given to the right member.
//
// # Needs
//
// PostgreSQL 15 or newer and a superuser's connection to a database that Bourn prepared:
// others see only a part of the catalog.
package rowsec
