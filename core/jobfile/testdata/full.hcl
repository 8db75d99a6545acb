job "web" {
  type            = "replicated"
  count           = 0
  priority        = 0
  labels          = { team = "shop", "example.com/tier" = 1 }
  constraints     = ["node.labels.disk == ssd", "node.attributes.kernel >= 5.10"]
  max_unavailable = "50%"
  max_per_node    = 2
  on_drift        = "keep"
  on_lost         = "wait"
  lost_after      = "90s"
  on_drain        = "last"
  strategy        = "binpack"
  history_limit   = 0

  task {
    driver  = "process"
    command = ["/srv/web", "-listen", ":8080"]
    dir     = "/srv"
    user    = "www"
    env     = { MODE = "prod", LEVEL = 3, for = "x", TEMPLATE = "$${HOME}", "quoted name" = "y" }
    config  = { run_for = "10s", exit_code = 3, quiet = true, mounts = ["/a", "/b"] }

    resources {
      cpu    = 0.1
      memory = "256MiB"
      units  = { gpu = 2 }
    }
    port "http" {
      static = 8080
    }
    port "admin" {}
    address "eth0" {
      pool = "lan"
    }
    secret "db-password" {
      version = 3
      target  = "db.txt"
      mode    = "0440"
      owner   = "1000:1000"
    }
    secret "tls.key" {}
    stop {
      signal           = "SIGINT"
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
    targets   = { b = 40, a = 60 }
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

  plugin "constraint" {
    strict = true
  }
  plugin "cel" {
    expr = "node.cpu > 4 && node.name != <none>"
    nested {
      size = 1.50
    }
    rule "first" {
      weight = 1
    }
    rule "second" {
      weight = 2
      weight2 = null
    }
    item {
      n = 1
    }
    item {
      n = 2
    }
  }
}
