# A job that no node can run until one has the label: it stalls at once, and says why.
#
#   setpoint job run examples/jobs/needs-ssd.hcl
#   setpoint stalls
#   setpoint node label n2 disk=ssd     # clears it; nobody needs to ask again
#   setpoint node label n2 disk-        # moves it away again: it no longer fits there

job "needs-ssd" {
  count       = 1
  constraints = ["node.labels.disk == ssd"]

  # With one task, a share of 25 % is one task: it may be away while it moves.
  max_unavailable = "25%"

  task {
    command = ["/bin/sleep", "86400"]

    resources {
      cpu    = 0.1
      memory = "16MiB"
    }
    stop {
      grace = "2s"
    }
  }
}
