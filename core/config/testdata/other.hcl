# Says of everything something else than its default.
name      = "s9"
data_dir  = "data"
advertise = "s9.example.com:9"

log {
  level = "debug"
  json  = true
}
listen {
  api = "[::]:9"
}
tls {
  names = ["a.example.com", "::1"]
  authority {
    certificate = "authority.pem"
    key         = "authority-key.pem"
  }
}
dashboard {
  listen      = "127.0.0.2:81"
  advertise   = "pages.example:81"
  certificate = "page.pem"
  key         = "page-key.pem"
}

store "bbolt" {
  file           = "/other/state.db"
  max_size       = "1GiB"
  any_filesystem = true
  retention {
    revisions = 7
    age       = "1h"
    size      = "1MiB"
  }
}
heartbeat {
  interval     = "10s"
  silent_after = "25s"
  grace        = "1m"

  per_second         = 10
  returns_per_second = 5
}
replace {
  nodes_per = "5s"
}
placement {
  strategy = "binpack"
}
limits {
  turn_changes = 777
}
pool "lan" {
  cidr = "10.1.0.0/24"
}
audit {
  file_size = "1MiB"
  files     = 3

  on_failure = "continue"
}
secret "tls.key" {
  file = "tls.key"
}
plugin "drain" {
  config {
    a = 1
  }
}
plugin "other" {
  path              = "bin/other"
  sha256            = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
  args              = ["-v"]
  env               = { A = "b" }
  timeout           = "7s"
  handshake_timeout = "9s"
  on_failure        = "ignore"
  max_memory        = "64MiB"
  user              = "nobody"
  sandbox {
    level   = "require"
    read    = ["/r"]
    write   = ["/w"]
    network = true
  }
}
plugin "global" {
  builtin  = true
  disabled = true
}
agent {
  server     = "s9:9"
  token_file = "token"
  name       = "n9"
  data_dir   = "../agent"
  labels     = { disk = "ssd" }
  attributes = { rack = "r1" }
  attributes_dir = "attributes.d"
  secrets_dir    = "/run/secrets"
  drivers    = ["sim"]
  capacity {
    cpu    = 0.5
    memory = "1GiB"
    units  = { gpu = 1 }
  }
  task_logs {
    file_size = "1MiB"
    files     = 2
  }
  driver "process" {
    enforce       = "required"
    cgroup_parent = "/setpoint"
  }
  driver "docker" {
    enforce = "required"
    host    = "tcp://engine:2376"
    tls {
      ca   = "ca.pem"
      cert = "cert.pem"
      key  = "key.pem"
    }
    registry "r.example.com" {
      username      = "puller"
      password_file = "password"
    }
  }
}

record_inputs = "inputs.jsonl"
notify "exec" {
  command = ["/bin/true"]
}
telemetry {
  service_name = "setpoint-test"
  attributes   = { "deployment.environment.name" = "test" }
  sample_ratio = 0.25
  otlp {
    endpoint     = "https://collector:4318"
    insecure     = true
    headers_file = "otlp-headers"
    timeout      = "3s"
    tls {
      ca   = "otlp-ca.pem"
      cert = "otlp.pem"
      key  = "otlp-key.pem"
    }
  }
}
