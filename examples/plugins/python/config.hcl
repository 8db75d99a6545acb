plugin "teams" {
  path = "./teams.py" # seen from this file
}
