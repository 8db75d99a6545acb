# Tasks that exist on paper only: the sim driver starts no process and follows a script, so that a hundred of them cost nothing.
#
#   setpoint job run examples/jobs/simulated.hcl --wait 30s

job "simulated" {
  count    = 20
  strategy = "spread"
  labels   = { purpose = "demonstration" }

  task {
    driver = "sim"

    config = {
      start_delay   = "500ms" # from starting to running
      healthy_after = "1s"    # from running to healthy
      stop_delay    = "300ms" # from the stop signal to the end
      stdout        = "simulated and proud of it\n"
    }

    resources {
      cpu    = 0.01
      memory = "1MiB"
    }
  }

  update {
    parallelism = 4
    monitor     = "1s"
  }
}
