// Package process runs tasks as processes of this machine, each under a shim.
//
// The shim is this same binary, executed again (ShimMain), one per task. It is the task's parent and the reaper of all its descendants, reads
// its output into log files, ends it when asked over a unix socket, and writes the exit record. It has a session of its own and no
// descriptor of the agent's, so an agent can be killed and replaced and neither exit code nor output is lost.
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
// No process is ever signalled by its number alone: the shim signals its own children, and where it is gone a process is found by its start
// time, or by the directory's path in its environment, and signalled through a pidfd. After a change of the boot id nothing is signalled.
//
// Settings of a task, all optional:
//
//	umask           octal mask of its new files' modes; 022
//	new_privileges  whether set-user-id programs and file capabilities may give it more than it has; false
//
// A service manager that runs the agent must leave the shims alone when it stops the agent (systemd: KillMode=process).
//
// Owner: the agent. The package imports the standard library, golang.org/x/sys and agent/driver only, for a shim's memory is paid once per task.
package process
