// Package notify tells people of what waits for too long, and of its end: through an Alertmanager, a webhook or a program. docs/NOTIFICATIONS.md is its page.
//
// Decide is pure: from what waits, what was told and the time it follows what is to be told. The rest carries that out: a goroutine looks at the newest state now
// and then, and each sink has one of its own, so that none waits for another. What a sink has told is given to the engine, which stores it; so nothing is told
// twice by another server or after a restart.
//
// Owner: the daemon makes a Notifier and runs it. It is a shell and imports no other.
package notify
