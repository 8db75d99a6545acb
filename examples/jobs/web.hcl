# Three replicas of a program that runs until it is told to stop.
#
#   setpoint job run examples/jobs/web.hcl --wait 30s
#
# Change MESSAGE and run it again to see a rolling update: one slot after the other, each new task only once the old one was seen to stop.

job "web" {
  type  = "replicated"
  count = 3

  task {
    # A loop in place of a real server, so that nothing needs to be installed. It ends well within its grace when it gets the stop signal.
    command = ["/bin/sh", "-c", <<-EOT
      trap 'echo "stopping"; exit 0' TERM
      echo "listening on port $SETPOINT_PORT_http"
      while :; do
        echo "$MESSAGE"
        sleep 5 &
        wait $!
      done
      EOT
    ]
    env = { MESSAGE = "hello" }

    resources {
      cpu    = 0.1
      memory = "32MiB"
    }

    # Any free port of the node, told to the task as SETPOINT_PORT_http.
    port "http" {}

    stop {
      signal = "TERM"
      grace  = "5s"
    }
  }

  update {
    parallelism = 1
    order       = "stop-first"
    monitor     = "2s"
    on_failure  = "rollback"
  }

  restart {
    condition = "any"
    delay     = "1s"
    max_delay = "30s"
    attempts  = 10
    window    = "10m"
  }
}
