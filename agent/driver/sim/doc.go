// Package sim runs tasks that exist on paper only: a script in the job file says how long they take to start and stop, how they end and how
// healthy they are. It serves tests, demonstrations and clusters larger than the machine.
//
// Nothing ticks. A task is a record of what was asked of it and when, and every answer is computed from that and the present time. So tasks
// live on while no driver does, as real ones would, and thousands cost nothing.
//
// What happened is one file, DIR/events.jsonl, appended to and never rewritten: the truth against which a test compares what a cluster
// claims. The driver itself comes back from it. It grows by some 200 bytes an event, so this is no driver for years of service.
//
// Settings of a task, all optional:
//
//	start_delay      duration that Start takes
//	stop_delay       duration between the stop signal and the end; longer than the grace means that the task is killed
//	run_for          duration after which it ends by itself; without it, it runs until stopped
//	exit_code        0 to 255, how it ends by itself
//	oom              whether it runs out of memory then: the kernel kills it, or with an exit code one of its processes
//	reject           text with which Start refuses it
//	fail_start       text with which Start fails, as by a trouble that may pass
//	healthy_after    duration after the start until it is healthy
//	unhealthy_after  duration after the start until it is no longer healthy
//	stdout, stderr   lines that it writes at its start
//	log_every        duration between one line and the next
//
// A command that runs inside a task (Exec) does what its words say, one after the other, and nothing on the machine:
//
//	out LINE, err LINE   writes a line to its standard output, or error
//	env NAME             writes NAME=value, of its environment and the task's
//	size                 reads two lines, and after each writes rows and columns of its terminal
//	cat                  copies its standard input to its output, to the end
//	hang                 runs until it is ended
//	exit CODE            ends; without it the code is 0
//
// Owner: the agent. The package imports the standard library and agent/driver only.
package sim
