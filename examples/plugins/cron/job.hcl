# Says the time once a minute. The latest five runs are kept, with their logs.
job "speaking-clock" {
  type = "cron"

  plugin "cron" {
    schedule = "* * * * *"
    history  = 5
  }

  task {
    command = ["/bin/date"]
  }

  restart {
    condition = "on-failure"
    attempts  = 3
    window    = "10m"
  }
}
