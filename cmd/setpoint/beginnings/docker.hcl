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
    driver = "docker"
    # command = ["/srv/web"]  # in place of the image's entrypoint and command
    # user    = "1000:1000"

    # Of the driver: docs/DOCKER-DRIVER.md.
    config = {
      image = "nginx:1.27"
      ports = { http = 80 } # the container's port behind the task's
      # args   = ["-g", "daemon off;"]
      # mounts = [{ source = "cache", target = "/var/cache/nginx" }]
    }

    # No secrets here: what is in a job file is kept, and shown.
    env = {
      MODE = "example"
    }

    # What is reserved for the task on its node. Memory is the limit, too, unless config says memory_limit.
    resources {
      cpu    = 0.25
      memory = "64MiB"
    }

    # A port of the node. With static = 8080 it is that one, otherwise any free one.
    port "http" {}

    # How to find out whether the task does its work. Without it the image's own check counts, or running is enough.
    health {
      http     = "http://127.0.0.1:$SETPOINT_PORT_http/"
      interval = "5s"
    }

    stop {
      signal = "QUIT"
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
