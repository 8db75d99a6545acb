# nginx, from its public image: needs nodes with the driver docker, as `setpoint dev --docker-host unix:///var/run/docker.sock` makes them. docs/DOCKER-DRIVER.md has all
# that config can say.
job "nginx" {
  type  = "replicated"
  count = 2

  task {
    driver = "docker"
    config = {
      image = "nginx:1.27"
      ports = { http = 80 }    # which port of the container is behind the machine's port
    }
    resources {
      cpu    = 0.25
      memory = "64MiB"         # a container with more is ended
    }
    port "http" {}             # any free port of the machine
    health {
      http     = "http://127.0.0.1:$SETPOINT_PORT_http/"
      interval = "2s"
    }
    stop {
      signal = "QUIT"          # with which nginx ends once its requests are answered
      grace  = "10s"
    }
  }
}
