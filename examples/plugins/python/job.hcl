# Runs on nodes of the team storage, such as those labelled teams=storage,search, and on nodes without a team.
job "ingest" {
  plugin "teams" {
    team = "storage"
  }

  task {
    command = ["/bin/sleep", "3600"]
  }
}
