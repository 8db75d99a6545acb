job "web" {
  type     = "replicated"
  count    = 0
  priority = 0
  labels = {
    "example.com/tier" = "1"
    team               = "shop"
  }
  max_unavailable = "50%"
  max_per_node    = 2
  on_drift        = "keep"
  on_lost         = "wait"
  lost_after      = "1m30s"
  on_drain        = "last"
  strategy        = "binpack"
  history_limit   = 0
  constraints     = ["node.labels.disk == ssd", "node.attributes.kernel >= 5.10"]

  task {
    command = ["/srv/web", "-listen", ":8080"]
    dir     = "/srv"
    user    = "www"
    env = {
      LEVEL         = "3"
      MODE          = "prod"
      TEMPLATE      = "$${HOME}"
      "for"         = "x"
      "quoted name" = "y"
    }
    config = {
      exit_code = 3
      mounts    = ["/a", "/b"]
      quiet     = true
      run_for   = "10s"
    }

    resources {
      cpu    = 0.1
      memory = "256MiB"
      units = {
        gpu = 2
      }
    }

    port "http" {
      static = 8080
    }

    port "admin" {
    }

    address "eth0" {
      pool = "lan"
    }

    secret "db-password" {
      version = 3
      target  = "db.txt"
      mode    = "0440"
      owner   = "1000:1000"
    }

    secret "tls.key" {
    }

    stop {
      signal           = "INT"
      grace            = "1m30s"
      after_disconnect = "2m"
    }

    health {
      http         = "http://127.0.0.1:8080/healthz"
      interval     = "5s"
      timeout      = "1s"
      start_period = "30s"
      retries      = 5
    }
  }

  spread {
    attribute = "node.labels.zone"
    targets = {
      a = 60
      b = 40
    }
  }

  spread {
    attribute = "node.os"
  }

  update {
    parallelism       = 0
    delay             = "5s"
    order             = "start-first"
    monitor           = "0s"
    on_failure        = "rollback"
    max_failure_ratio = 0.25
    progress_deadline = "0s"
  }

  restart {
    condition = "on-failure"
    delay     = "2s"
    max_delay = "20s"
    attempts  = 10
    window    = "5m"
  }

  plugin "cel" {
    expr = "node.cpu > 4 && node.name != <none>"
    item = [
      { n = 1 },
      { n = 2 },
    ]
    nested = {
      size = 1.5
    }
    rule = {
      first = {
        weight = 1
      }
      second = {
        weight  = 2
        weight2 = null
      }
    }
  }

  plugin "constraint" {
    strict = true
  }
}
