# One task on every node, also on nodes that join later. Its tasks leave a node that is drained after all others.
#
#   setpoint job run examples/jobs/agentlog.hcl --wait 30s

job "agentlog" {
  type = "global"

  task {
    command = ["/bin/sh", "-c", <<-EOT
      trap 'exit 0' TERM
      while :; do
        echo "$(date -u +%H:%M:%S) load $(cut -d ' ' -f 1-3 /proc/loadavg)"
        sleep 10 &
        wait $!
      done
      EOT
    ]

    resources {
      cpu    = 0.05
      memory = "16MiB"
    }
    stop {
      grace = "5s"
    }
  }
}
