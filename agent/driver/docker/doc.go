// Package docker runs tasks as containers of a Docker engine, whose API it speaks: one container for each task, kept until the task is removed.
//
// All that is known of a task lies in its container, which the engine keeps over its own restarts and the agent's:
//
//	name    setpoint-TASK-HASH, made of the task id and the driver's mark. The engine gives a name once, so a task never has two containers
//	labels  setpoint.task and setpoint.owner, the driver's mark; and for people setpoint.cluster, .node, .job and .slot
//	state   created: nothing ever ran, and Start goes on from there; running, paused; exited, with the exit record
//
// The engine starts no container again by itself and removes none. It is asked to start one only after it said that this one was never started, and the answer is
// waited for whatever becomes of the caller: so a task whose start is in doubt is not started beside itself.
//
// The mark is random and made with the driver's directory, so agents that share an engine leave each other's containers alone, and everybody else's:
//
//	DIR/owner       the mark
//	DIR/stops/NAME  until when a task that was told to stop may take, so that an agent's restart extends nothing
//
// Settings of a task are described in docs/DOCKER-DRIVER.md, and read in settings.go.
//
// Owner: the agent. The package imports the standard library, golang.org/x/sys, the engine's client and agent/driver only.
package docker
