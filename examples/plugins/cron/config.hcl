plugin "cron" {
  path = "./cron" # seen from this file
}
