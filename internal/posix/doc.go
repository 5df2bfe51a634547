// Package posix makes people users and circles groups of the operating system. A [State]
// says who there is, a [Host] what a machine has, [Plan] what is missing between them as
// data, and [Perform] does that. The setuid helper takes its registry and the grammar of
// its requests from here too.
//
//	identities.json ──State──┐
//	                         ├─Plan─▶ []Change ─Perform─▶ passwd, group, directories, mounts
//	passwd, group, … ──Host──┘                             └─▶ people.json (Registry) ─▶ helper
//
// Two files, both root's, because they say two things at two times. /etc/bourn/identities.json
// is what is wanted; it holds e-mails and accounts, so nobody but root reads it. It is JSON,
// each key known and once:
//
//	{"version":1,"range":{"first":66000,"last":99999},
//	 "people":[{"id":"ann","member":"","name":"jgiv4dl5jn","uid":66016,"emails":["ann@example.com"],
//	   "accounts":[{"issuer":"https://id.example.com","subject":"17"}],"removed":false}],
//	 "circles":[{"id":"sales","name":"4bhlfeba5k","gid":66017,"members":["ann"],"removed":false}],
//	 "tombstones":[{"kind":"person","id":"bob","name":"qg3dpwh42l","number":66018}]}
//
// /etc/bourn/people.json is what was done: user name, numbers, groups and whether the person
// is active. It is written first when somebody loses something and last when somebody gains,
// so the helper never acts for an account that is not there yet or no longer should be. What
// a setuid program parses holds no text that came from outside. Who was removed or forgotten stays
// in it as not active: what they run can still be ended.
//
// Each file has a lock. The state's is held while a plan is made and performed, which takes as
// long as it takes. The registry's is held while it is read and written anew, by a performance and by the
// helper's revoke, which waits for nothing else.
//
// # What it upholds
//
// A number and a name are given once: what is removed leaves a tombstone. Plan refuses a
// range that overlaps subuid, subgid, login.defs or systemd's own numbers, and every entry
// in it that it does not know; what only takes away is planned even then. Planning again
// after performing plans nothing. Root works by descriptor, follows no link that another user can plant
// and crosses no mount. An identifier matches one person exactly, or nobody.
//
// # What it does not
//
// Users that only LDAP or another name service knows are not seen. A running process keeps
// its groups for life: [Options].Stop has to end it. A bind mount of a parent of the workspace without
// its submounts shows the roots as one file system again, where hard links between them are
// possible. Who is root, or takes over the service, is every person.
//
// # Needs
//
// Linux 5.8 for mount ids (statx(2)), root to perform, and systemd-sysusers where
// [Options].Sysusers is set.
package posix
