# Work that ends by itself: each slot is done once one of its tasks completed. What fails is tried again.
#
#   setpoint job run examples/jobs/once.hcl --wait 30s

job "once" {
  type  = "batch"
  count = 2

  task {
    command = ["/bin/sh", "-c", "echo working; sleep 2; echo done"]

    resources {
      cpu    = 0.1
      memory = "16MiB"
    }
  }

  restart {
    condition = "on-failure"
    attempts  = 3
    window    = "5m"
  }
}
