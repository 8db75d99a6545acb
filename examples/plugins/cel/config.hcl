plugin "cel" {
  path = "./cel" # seen from this file

  config {
    max_cost = 10000
  }
}
