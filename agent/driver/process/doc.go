// Package process runs tasks as processes of this machine, each under a shim.
//
// The shim is cmd/setpoint-shim, a small program that holds this package and nothing else, or this same binary executed again (ShimMain); one per task. It is the
// task's parent and the reaper of all its descendants, reads its output into log files, ends it when asked over a unix socket, and writes the exit record. It has
// a session of its own and no descriptor of the agent's, so an agent can be killed and replaced and neither exit code nor output is lost.
//
// A task is born by the shim's program executed once more: it joins the task's control groups before anything else, so that no child of it is ever outside,
// takes limits, groups and user upon itself, and then becomes the task's program (become.go). Which limits the machine enforces is told as attributes of the
// node; what a task asks for beyond them is refused or told with its handle, by Options.Enforce.
//
// A command that runs inside a task (Exec) is born the same way, by an escort, which is the shim's program again, as a child of the agent: it starts the command, is the
// reaper of all that descends from it, and ends that when the agent hangs up or dies. It needs nothing of the task's shim, so that of an older agent will do.
//
// All that is known of a task lies in its directory:
//
//	DIR/tasks/ID/           ID is the escaped task id; mode 0711, so that a task of another user reaches its working directory
//	  lock                  flock held from before the shim's start until its end, by the kernel: free means that no shim lives
//	  spec.json             the intent, written before the shim starts
//	  shim.json             who the shim and the task are (boot id, pid, start time); written before the task's start, so that
//	                        "lock free, shim.json there, exit.json not" means: may have run, nobody saw the end
//	  shim.sock             where the shim answers; every request and answer names the task and the start's random mark
//	  shim.log              the shim's own last words, should it crash
//	  exit.json             the exit record, written once everything of the task is gone
//	  logs/{out,err}.N.log  output, rotated by size; the highest N is written to
//	  work/                 working directory of tasks that name none
//
// No process is ever signalled by its number alone: the shim signals its own children, and where it is gone a process is found by its control group, its start
// time, or the directory's path in its environment, and signalled through a pidfd. After a change of the boot id nothing is signalled.
//
// docs/PROCESS-DRIVER.md says what there is for users: the settings of a task, those of an agent, and what it takes to have limits enforced.
//
// A service manager that runs the agent must leave the shims alone when it stops the agent (systemd: KillMode=process).
//
// Owner: the agent. The package imports the standard library, golang.org/x/sys, core/cgroup and agent/driver only, for a shim's memory is paid once per task.
package process
