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

  # Tasks that are only made up, to try Setpoint out: docs/DESIGN.md.
  task {
    driver = "sim"
    config = {
      start_delay = "500ms" # how long it takes to come up
      # run_for   = "1m"    # then it ends,
      # exit_code = 1       # with this code
    }

    # What is reserved for the task on its node.
    resources {
      cpu    = 0.1
      memory = "64MiB"
    }

    stop {
      grace = "10s"
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
