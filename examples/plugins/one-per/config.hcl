plugin "one-per" {
  path = "./one-per" # seen from this file
}
