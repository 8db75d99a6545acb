// Package driver says what an agent needs from whatever runs its tasks, and holds the vocabulary that the drivers share.
//
// A driver runs tasks on this machine and nothing else: it decides nothing about when a task should run, restarts nothing, and keeps no
// promise across tasks. It owns what it starts: the processes or containers, their logs and their exit records, which outlive the agent.
// The agent owns the record of which tasks it was given; it writes down its intent before it calls Start.
//
// Owner: the agent. The package imports the standard library only; drivers import it, and it imports no driver.
package driver
