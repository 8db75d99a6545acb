# A job. `setpoint job plan` shows what it would do, `setpoint job run` does it; docs/JOBS.md has all that can stand here.

variable "count" {
  description = "how many tasks there are" # --var count=3, SETPOINT_VAR_count=3, or a --var-file
  type        = number
  default     = 1
}

job "NAME" {
  type  = "replicated" # or "global" (one on every node), "batch" (tasks that end), "global-batch"
  count = var.count

  # Which nodes may run it; all of these must hold.
  # constraints = ["node.os == linux", "node.labels.disk == ssd"]

  task {
    driver  = "process"
    command = ["/bin/sh", "-c", "echo hello from $SETPOINT_TASK_ID; exec sleep 1000000"]
    # dir   = "/srv"          # default: a directory of the task's own
    # user  = "www"           # default: the agent's
    # config = { pids = 64 }  # of the driver: docs/PROCESS-DRIVER.md

    # No secrets here: what is in a job file is kept, and shown.
    env = {
      MODE = "example"
    }

    # What is reserved for the task on its node. Memory is the limit, too.
    resources {
      cpu    = 0.1
      memory = "64MiB"
    }

    # A port of the node, told to the task as SETPOINT_PORT_http. With static = 8080 it is that one.
    # port "http" {}

    # How to find out whether the task does its work. Without it, running is enough.
    # health {
    #   http     = "http://127.0.0.1:$SETPOINT_PORT_http/healthz"
    #   interval = "10s"
    # }

    stop {
      signal = "TERM"
      grace  = "10s" # then it is killed
    }
  }

  # How tasks move to a new version of this file.
  update {
    parallelism = 1            # so many slots at a time; 0: all
    monitor     = "10s"        # how long each must run to count as up
    on_failure  = "rollback"   # or "pause", "continue"
    order       = "stop-first" # or "start-first": the new task comes up before the old one goes
  }

  # When a task that ended is replaced.
  restart {
    condition = "any" # or "on-failure", "none"
    delay     = "1s"  # doubled with each restart, up to max_delay
    max_delay = "1m"
  }
}
